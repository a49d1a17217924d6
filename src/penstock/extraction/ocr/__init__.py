"""Pages that are pictures: what they look like, and what reads them."""
