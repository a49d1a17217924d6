"""Knowledge from web pages and documents: crawls of sites, and what their text says."""
