"""Which page of a packet is its cover sheet, and which pages are its parts: by rules from a file, and a model if wanted."""

from penstock.pipelines.parts.classify import classify
from penstock.pipelines.parts.hook import Hook, load_hook
from penstock.pipelines.parts.page import PageText, Part
from penstock.pipelines.parts.rules import Rules, load_rules

__all__ = ["Hook", "PageText", "Part", "Rules", "classify", "load_hook", "load_rules"]
