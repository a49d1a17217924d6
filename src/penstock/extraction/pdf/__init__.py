"""PDF: opening and repair, text with headings, bombs, and pages as images."""
