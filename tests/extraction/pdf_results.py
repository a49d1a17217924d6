"""Converted and merged PDFs, as tests read them."""

import io
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, NamedTuple

import pikepdf
import pypdfium2  # type: ignore[import-untyped]
from PIL import Image
from typing_extensions import override

from penstock.extraction import SandboxPool
from penstock.extraction.sandbox.protocol import Reply
from penstock.extraction.to_pdf.convert import convert
from penstock.extraction.to_pdf.merge import merge
from tests.extraction import sample_files


class Converted(NamedTuple):
    """What came back."""

    told: dict[str, Any]
    pdf: bytes

    @property
    def texts(self) -> list[str]:
        with pypdfium2.PdfDocument(self.pdf) as document:
            return [sheet.get_textpage().get_text_range().replace("\r\n", "\n") for sheet in document]

    @property
    def gaps(self) -> list[str]:
        return [gap["reason"] for gap in self.told["gaps"]]

    def image(self, number: int = 1) -> Image.Image:
        with pypdfium2.PdfDocument(self.pdf) as document:
            drawn: Image.Image = document[number - 1].render(scale=1).to_pil().convert("RGB")
            return drawn


class Parts(Reply):
    """Takes the one part of a task."""

    def __init__(self) -> None:
        self.headers: list[dict[str, Any]] = []
        self.content = b""

    @override
    def part(self, header: dict[str, Any], pieces: Iterable[bytes]) -> None:
        self.headers.append(header)
        self.content = b"".join(pieces)


def converted(raw: bytes, name: str = "", **limits: int) -> Converted:
    parts = Parts()
    told = convert(io.BytesIO(raw), sample_files.arguments(name, **limits), parts)
    assert parts.headers == [{"name": "converted.pdf"}]
    with pikepdf.open(io.BytesIO(parts.content)) as document:
        assert len(document.pages) == told["pages"] and not document.get_warnings()
    return Converted(told, parts.content)


async def call(sandboxes: SandboxPool, task: str, raw: bytes, **arguments: Any) -> tuple[Any, dict[str, Any], bytes]:
    headers: list[dict[str, Any]] = []
    gathered: list[bytes] = []

    async def keep(header: dict[str, Any], pieces: AsyncIterator[bytes]) -> None:
        headers.append(header)
        gathered.extend([piece async for piece in pieces])

    with tempfile.TemporaryFile() as file:
        file.write(raw)
        file.flush()
        told = await sandboxes.call(task, file, {"limits": sample_files.LIMITS, **arguments}, sink=keep)
    [header] = headers
    return told, header, b"".join(gathered)


class Merged(NamedTuple):
    """What came back."""

    told: dict[str, Any]
    pdf: bytes

    @property
    def texts(self) -> list[str]:
        with pypdfium2.PdfDocument(self.pdf) as document:
            return [page.get_textpage().get_text_range() for page in document]

    @property
    def outline(self) -> list[tuple[str, int]]:
        with pypdfium2.PdfDocument(self.pdf) as document:
            return [(one.get_title(), one.get_dest().get_index() + 1) for one in document.get_toc()]

    def open(self) -> pikepdf.Pdf:
        return pikepdf.open(io.BytesIO(self.pdf))


def bundle(documents: Sequence[bytes], titles: Sequence[str] = ()) -> tuple[bytes, list[dict[str, Any]]]:
    """One behind the other, and where each lies."""
    listed, at = [], 0
    for number, raw in enumerate(documents):
        listed.append({"start": at, "size": len(raw), "title": titles[number] if titles else f"Document {number + 1}"})
        at += len(raw)
    return b"".join(documents), listed


def merged(documents: Sequence[bytes], titles: Sequence[str] = (), title: str = "", **limits: int) -> Merged:
    raw, listed = bundle(documents, titles)
    parts = Parts()
    told = merge(io.BytesIO(raw), sample_files.arguments("", **limits) | {"documents": listed, "title": title}, parts)
    assert parts.headers == [{"name": "merged.pdf"}]
    return Merged(told, parts.content)
