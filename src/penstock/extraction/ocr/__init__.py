"""OCR: reads pages that are images, and puts their lines into reading order."""
