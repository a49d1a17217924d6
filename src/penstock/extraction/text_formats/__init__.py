"""Readers of text formats: plain text, Markdown, web pages, mail, tables, JSON, notebooks, XML."""
