"""The process in which a document is read (`python -m penstock.extraction.box`), and the side of its parent (`Boxes`)."""
