"""What turns text into vectors."""

from penstock.models.catalog import Known, Models, list_models, load_static, minilm_folder, open_model
from penstock.models.embed import Embedder, LocalModel, Model

__all__ = [
    "Embedder",
    "Known",
    "LocalModel",
    "Model",
    "Models",
    "list_models",
    "load_static",
    "minilm_folder",
    "open_model",
]
