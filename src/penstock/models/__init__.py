"""What turns text into vectors."""

from penstock.models.embed import Embedder, Model, Models, open_model

__all__ = ["Embedder", "Model", "Models", "open_model"]
