"""PDF: text with its places, headings, pages to draw, repair, and bombs."""
