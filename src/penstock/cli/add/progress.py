"""The progress of `penstock add`, for its display, its report and its exit code.

The display is bars on a terminal, a line now and then elsewhere, and nothing for programs.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from penstock.cli.add.discover import printable
from penstock.text import counted, span

OPEN, READY, FAILED, DELETED = "queued", "ready", "failed", "deleted"
LINE_EVERY = 2.0  # seconds

Show = Callable[[], None]
Say = Callable[[str], None]


@dataclass
class Entry:
    """A file, or an attachment or archive member of one, and its outcome."""

    name: str
    added: str  # accepted, skipped (already there), refused, member
    id: int | None = None
    status: str = OPEN
    reason: str = ""
    gaps: int = 0
    parent: int | None = None

    @property
    def failed(self) -> bool:
        return self.added == "refused" or self.status == FAILED

    def facts(self) -> dict[str, Any]:
        known = {key: value for key, value in vars(self).items() if value not in (None, "", 0)}
        return known if self.added != "refused" else {key: known[key] for key in known if key != "status"}


@dataclass
class AddProgress:
    """All entries, and how fast they come."""

    collection: str
    files: int = 0
    size: int = 0  # bytes of all files
    sent: int = 0  # bytes so far
    processed: int = 0  # files that are accepted, skipped or refused
    entries: list[Entry] = field(default_factory=list)
    open: dict[int, Entry] = field(default_factory=dict)
    steps: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)
    waiting: bool = False  # for the documents to be ready
    appeared: asyncio.Event = field(default_factory=asyncio.Event)  # the first open document
    _finished: int = 0

    def note(self, entry: Entry) -> None:
        """Record a file that was accepted, skipped or refused, or a member that has appeared."""
        self.entries.append(entry)
        self.processed += entry.added != "member"
        if entry.id is not None and entry.added != "refused" and entry.status == OPEN:
            self.open[entry.id] = entry
            self.appeared.set()

    def finish(self, document: int, status: str, reason: str | None, gaps: int) -> None:
        entry = self.open.pop(document)
        entry.status, entry.reason, entry.gaps = status, reason or "", gaps
        self._finished += 1

    def count(self, added: str) -> int:
        return sum(entry.added == added for entry in self.entries)

    @property
    def documents(self) -> int:
        return self._finished + len(self.open)

    @property
    def finished(self) -> int:
        return self._finished

    @property
    def ready(self) -> int:
        return sum(entry.status == READY for entry in self.entries)

    @property
    def failed(self) -> int:
        return sum(entry.failed for entry in self.entries)

    @property
    def failures(self) -> Iterator[Entry]:
        return (entry for entry in self.entries if entry.failed)

    @property
    def elapsed(self) -> float:
        return max(time.monotonic() - self.began, 0.001)

    @property
    def rate(self) -> float:
        """Documents per second, from the beginning on."""
        return self._finished / self.elapsed

    @property
    def seconds_left(self) -> float | None:
        """By the rate so far; unknown until something has been done."""
        if not self._finished:
            return None
        return (len(self.open) + self.files - self.processed) / self.rate

    def facts(self) -> dict[str, Any]:
        """The answer of `--json`."""
        return {
            "collection": self.collection,
            "accepted": self.count("accepted"),
            "skipped": self.count("skipped"),
            "ready": self.ready,
            "failed": self.failed,
            "seconds": round(self.elapsed, 3),
            "documents": [entry.facts() for entry in self.entries],
        }


# -- display --------------------------------------------------------------------------------------------------------


@contextmanager
def display(progress: AddProgress, *, as_json: bool) -> Iterator[tuple[Show, Say]]:
    """Two functions: show the progress as it is now, and print a sentence."""
    if sys.stderr.isatty() if as_json else sys.stdout.isatty():
        with bars(progress, Console(stderr=as_json, highlight=False, markup=False)) as functions:
            yield functions
    elif as_json:
        yield (lambda: None), (lambda sentence: typer.echo(sentence, err=True))
    else:
        yield ProgressLines(progress).show, typer.echo


class ProgressLines:
    """For a log or a pipe."""

    def __init__(self, progress: AddProgress) -> None:
        self._progress = progress
        self._shown_at = time.monotonic()
        self._shown = ""

    def show(self) -> None:
        line = f"{describe_adding(self._progress)}; {describe_preparing(self._progress)}"
        if time.monotonic() - self._shown_at >= LINE_EVERY and line != self._shown:
            typer.echo(f"{line}; {describe_pace(self._progress)}")
            self._shown_at, self._shown = time.monotonic(), line


@contextmanager
def bars(progress: AddProgress, console: Console) -> Iterator[tuple[Show, Say]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=console, transient=True, refresh_per_second=8) as shown:
        adding = shown.add_task("adding", total=max(progress.size, 1), note="")
        preparing = shown.add_task("preparing", total=None, note="", visible=False)

        def show() -> None:
            shown.update(adding, completed=progress.sent, note=describe_adding(progress))
            if progress.waiting:
                note = f"{describe_preparing(progress)}  {describe_pace(progress)}"
                total = progress.documents + progress.files - progress.processed
                shown.update(preparing, completed=progress.finished, total=max(total, 1), note=note, visible=True)

        yield show, lambda sentence: console.print(printable(sentence))
        show()


def describe_adding(progress: AddProgress) -> str:
    return (
        f"{progress.processed:,} of {counted(progress.files, 'file')}, {size(progress.sent)} of {size(progress.size)}"
    )


def describe_preparing(progress: AddProgress) -> str:
    failed = sum(entry.status == "failed" for entry in progress.entries)
    parts = [f"{progress.finished:,} of {counted(progress.documents, 'document')}"]
    parts += [f"{failed:,} failed"] * bool(failed)
    parts += [f"{count} in {step}" for step, count in progress.steps.items()]
    return ", ".join(parts)


def describe_pace(progress: AddProgress) -> str:
    left = progress.seconds_left
    soon = f", {span(timedelta(seconds=max(left, 1)))} left" if left else ""
    return f"{progress.rate:.1f}/s{soon}"


def size(number: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"
