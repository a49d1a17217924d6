"""Text, and what is text with marks in it: web pages, mails, tables, notebooks."""
