"""Office formats, new and old, and the containers that they share."""
