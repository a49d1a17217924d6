"""One file through the sandboxes, as the pipeline does it: read it, then the first scanned pages, then what is inside of it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

from penstock.errors import JobFailure
from penstock.extraction import ExtractedDocument, SandboxPool
from penstock.extraction.result import Gap, Page, decode_gap, decode_page
from penstock.extraction.sandbox.exchange import Sink
from penstock.settings.settings import LimitSettings

OCR_PAGES = 2


@dataclass
class Trial:
    """What came of it."""

    name: str
    seconds: float = 0
    longest_call: float = 0
    error: BaseException | None = None
    reading: ExtractedDocument | None = None
    pages: list[Page] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    members: dict[str, int] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return self.error is None

    @property
    def text(self) -> str:
        return "\n".join(page.text for page in self.pages)

    @property
    def sentences(self) -> list[str]:
        """All that a person would see."""
        return [gap.reason for gap in self.gaps] + ([str(self.error)] if self.error else [])


async def try_file(sandboxes: SandboxPool, path: Path) -> Trial:
    trial, began = Trial(path.name), monotonic()
    try:
        with path.open("rb") as file:
            await _Attempt(sandboxes, file, trial).read()
    except Exception as error:  # noqa: BLE001  what it is, the test asks
        trial.error = error
    trial.seconds = monotonic() - began
    return trial


class _Attempt:
    def __init__(self, sandboxes: SandboxPool, file: BinaryIO, trial: Trial) -> None:
        self._sandboxes = sandboxes
        self._file = file
        self._trial = trial

    async def _call(self, task: str, sink: Sink | None = None, **arguments: Any) -> Any:
        began = monotonic()
        try:
            arguments["limits"] = LimitSettings().model_dump()
            return await self._sandboxes.call(task, self._file, arguments, name=self._trial.name, sink=sink)
        finally:
            self._trial.longest_call = max(self._trial.longest_call, monotonic() - began)

    async def read(self) -> None:
        trial = self._trial
        reading = ExtractedDocument.decode(await self._call("read", name=trial.name))
        trial.reading, trial.pages, trial.gaps = reading, list(reading.pages), list(reading.gaps)
        for number in reading.scanned[:OCR_PAGES]:
            await self._ocr(number, reading.media_type)
        if reading.facts.get("members", "0") != "0":
            await self._unpack(reading.media_type)

    async def _ocr(self, number: int, media_type: str) -> None:
        try:
            found = await self._call("ocr", media_type=media_type, pages=[number], language="en", engine="auto")
        except JobFailure as error:  # a page that cannot be read is a gap of its document
            self._trial.gaps.append(Gap(number, str(error)))
            return
        self._trial.pages += [decode_page(page) for page in found["pages"]]
        self._trial.gaps += [decode_gap(gap) for gap in found["gaps"]]

    async def _unpack(self, media_type: str) -> None:
        async def weigh(header: dict[str, Any], pieces: AsyncIterator[bytes]) -> None:
            size = 0
            async for piece in pieces:
                size += len(piece)
            self._trial.members[str(header["name"])] = size

        result = await self._call("members", sink=weigh, media_type=media_type, name=self._trial.name)
        self._trial.gaps += [decode_gap(gap) for gap in result["gaps"]]
