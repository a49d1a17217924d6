"""Documents as paper: each becomes a PDF, several become one, and a page of it becomes an image."""
