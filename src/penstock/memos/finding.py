"""Findings: what the model holds worth remembering of a batch, as far as it can be believed.

The form of the answer was checked by its schema. Here is what a schema cannot say: a finding names messages of this batch
and no others, and is a sentence and not a book. What is otherwise is left out and counted, and the rest of the answer counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.memos.batch import Batch

TEXT_MAX = 2_000  # characters of a memo
MOST = 100  # findings of one batch


@dataclass(frozen=True, slots=True)
class Finding:
    """A memo before it is one."""

    text: str
    kind: str
    confidence: float
    messages: list[int]  # their numbers in the stream, in order


def read_findings(answer: Mapping[str, Any], batch: Batch) -> tuple[list[Finding], int]:
    """Findings in the order in which their last messages were said, and how many were left out."""
    found: dict[str, Finding] = {}
    rejected = 0
    for each in answer["memos"]:
        finding = _read(each, batch) if len(found) < MOST else None
        if finding is None or finding.confidence < batch.confidence:
            rejected += 1
            continue
        twin = found.get(finding.text.casefold())
        if twin is not None:  # said twice in one breath
            messages = sorted({*twin.messages, *finding.messages})
            finding = Finding(twin.text, twin.kind, max(twin.confidence, finding.confidence), messages)
        found[finding.text.casefold()] = finding
    places = {line.seq: place for place, line in enumerate(batch.lines)}
    return sorted(found.values(), key=lambda each: max(places[seq] for seq in each.messages)), rejected


def _read(each: Mapping[str, Any], batch: Batch) -> Finding | None:
    text = " ".join(str(each["text"]).split())
    numbers = [batch.seq_of(int(number)) for number in each["messages"]]
    messages = sorted({seq for seq in numbers if seq is not None})
    believable = (
        0 < len(text) <= TEXT_MAX
        and "\0" not in text
        and text.encode("utf-8", "replace").decode() == text
        and batch.mark not in text
        and messages
        and None not in numbers
        and 0 <= each["confidence"] <= 1
    )
    return Finding(text, str(each["kind"]), float(each["confidence"]), messages) if believable else None
