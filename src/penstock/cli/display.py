"""How far `penstock add` is: bars on a terminal, a line now and then elsewhere, nothing for programs."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from penstock.cli.gathering import printable
from penstock.cli.tally import Tally
from penstock.engine.wording import counted, span

LINE_EVERY = 2.0  # seconds

Show = Callable[[], None]
Say = Callable[[str], None]


@contextmanager
def display(tally: Tally, *, as_json: bool) -> Iterator[tuple[Show, Say]]:
    """Two functions: show the tally as it is now, and say a sentence."""
    if sys.stderr.isatty() if as_json else sys.stdout.isatty():
        with bars(tally, Console(stderr=as_json, highlight=False, markup=False)) as functions:
            yield functions
    elif as_json:
        yield (lambda: None), (lambda sentence: typer.echo(sentence, err=True))
    else:
        yield Lines(tally).show, typer.echo


class Lines:
    """For a log or a pipe."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._said_at = time.monotonic()
        self._said = ""

    def show(self) -> None:
        line = f"{describe_adding(self._tally)}; {describe_preparing(self._tally)}"
        if time.monotonic() - self._said_at >= LINE_EVERY and line != self._said:
            typer.echo(f"{line}; {describe_pace(self._tally)}")
            self._said_at, self._said = time.monotonic(), line


@contextmanager
def bars(tally: Tally, console: Console) -> Iterator[tuple[Show, Say]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=console, transient=True, refresh_per_second=8) as progress:
        adding = progress.add_task("adding", total=max(tally.size, 1), note="")
        preparing = progress.add_task("preparing", total=None, note="", visible=False)

        def show() -> None:
            progress.update(adding, completed=tally.sent, note=describe_adding(tally))
            if tally.waiting:
                note = f"{describe_preparing(tally)}  {describe_pace(tally)}"
                total = tally.documents + tally.files - tally.looked_at
                progress.update(preparing, completed=tally.settled, total=max(total, 1), note=note, visible=True)

        yield show, lambda sentence: console.print(printable(sentence))
        show()


def describe_adding(tally: Tally) -> str:
    return f"{tally.looked_at:,} of {counted(tally.files, 'file')}, {size(tally.sent)} of {size(tally.size)}"


def describe_preparing(tally: Tally) -> str:
    failed = sum(entry.status == "failed" for entry in tally.entries)
    parts = [f"{tally.settled:,} of {counted(tally.documents, 'document')}"]
    parts += [f"{failed:,} failed"] * bool(failed)
    parts += [f"{count} in {step}" for step, count in tally.steps.items()]
    return ", ".join(parts)


def describe_pace(tally: Tally) -> str:
    left = tally.seconds_left
    soon = f", {span(timedelta(seconds=max(left, 1)))} left" if left else ""
    return f"{tally.rate:.1f}/s{soon}"


def size(number: float) -> str:
    """Bytes for a person."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"
