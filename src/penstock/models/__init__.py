"""Embedding models, which turn text into vectors, and language models, which complete prompts."""

from penstock.models.catalog import Models, list_models, load_static, minilm_folder, open_model
from penstock.models.llm import Completer, Completion, Message, Request
from penstock.models.minilm import install_minilm
from penstock.models.schema import check_schema
