"""What web sites and documents say: crawled, read by a language model, kept as facts with their sources."""
