"""Readers of Office formats (OOXML, OpenDocument, the binary formats before 2007, EPUB) and of their containers."""
