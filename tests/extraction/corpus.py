"""Where the shared corpus of real documents is."""

from pathlib import Path

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"
