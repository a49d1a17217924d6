"""The files that a task sends, as the parent of a sandbox process takes them."""

from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from penstock.extraction.sandbox.protocol import Reply


class SentFiles(Reply):
    """Takes parts as the parent of a sandbox does: one that breaks off is dropped."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    @override
    def part(self, header: dict[str, Any], pieces: Iterable[bytes]) -> None:
        content = b"".join(pieces)
        assert header["name"] not in self.files
        self.files[header["name"]] = content
