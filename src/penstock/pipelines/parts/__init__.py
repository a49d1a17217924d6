"""Parts of a packet: its cover sheet and its sections, found by the rules of a file and, if configured, a model."""

from penstock.pipelines.parts.classifier import classify, load_hook
from penstock.pipelines.parts.features import PacketPage, Part
from penstock.pipelines.parts.rules import Rules, load_rules
