"""`penstock add`: files and folders into a collection.

It needs no API: the database and the blob store are enough. When a worker is alive, the work is the worker's, and this ends
as soon as everything is accepted, or with --wait when everything is ready. When none is alive, it works itself.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.asking import Json, console, print_json
from penstock.cli.display import Say, Show, display, size
from penstock.cli.gathering import Gathered, gather, printable
from penstock.cli.running import Stop, run_until_stopped
from penstock.cli.tally import FAILED, Entry, Tally
from penstock.engine.wording import counted
from penstock.errors import BadValue, PenstockError
from penstock.settings import LogSettings, load_settings

if TYPE_CHECKING:
    from penstock.cli.beside import Beside
    from penstock.pipelines import Product

SHOWN = 20  # failures, and what was left out
MANY = 100  # files for which another process is worth its start


@dataclass(frozen=True)
class How:
    """What was asked for, and where to tell how it goes."""

    metadata: dict[str, Any]
    show: Show
    say: Say
    beside: "Beside | None"
    wait: bool
    replace: bool


def add(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    collection: Annotated[
        str, typer.Option("--collection", "-c", help="Where to; made if it is not there.")
    ] = "default",
    wait: Annotated[bool, typer.Option("--wait", help="Until every document is ready or failed.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put other content in the place of the same name.")
    ] = False,
    metadata: Annotated[str, typer.Option(help="A JSON object that every document gets.")] = "{}",
    as_json: Json = False,
) -> None:
    """Add files and folders to a collection; what is there already with the same content is left alone."""
    facts = _metadata(metadata)
    gathered = gather(paths)
    tally = Tally(collection, files=len(gathered.files), size=sum(file.size for file in gathered.files))
    settings = load_settings().settings.model_copy(update={"log": LogSettings(level="error")})  # not into the display

    async def main(stop: Stop) -> int:
        with display(tally, as_json=as_json) as (show, say):
            how = How(facts, show, say, beside, wait, replace)
            adding = asyncio.create_task(_add(gathered, tally, how))
            return await _until_stopped(adding, stop)

    try:
        with _another_process(tally) as beside:
            code = run_until_stopped(settings, main)
    except PenstockError:
        if tally.entries:  # what was accepted before must be known
            _report(tally, gathered, interrupted=True, as_json=as_json)
        raise
    _report(tally, gathered, interrupted=code >= 128, as_json=as_json)
    raise typer.Exit(code or int(any(tally.failures)))


def _metadata(text: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except ValueError as error:
        raise BadValue(f"--metadata is not JSON ({error}): write something like '{{\"year\": 2024}}'.") from None
    if not isinstance(facts, dict):
        raise BadValue("--metadata is not a JSON object: write something like '{\"year\": 2024}'.")
    return facts


async def _until_stopped(adding: "asyncio.Task[None]", stop: Stop) -> int:
    asked = asyncio.create_task(stop.requested.wait())
    await asyncio.wait([adding, asked], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if adding.done():
        await adding
        return 0
    adding.cancel()
    await asyncio.wait([adding])
    if not adding.cancelled() and (error := adding.exception()) is not None:
        raise error
    return 128 + (stop.signal or SIGINT)


def _another_process(tally: Tally) -> "AbstractContextManager[Beside | None]":
    if tally.files < MANY:
        return nullcontext()
    import penstock.pipelines  # noqa: F401  before the fork, for both
    from penstock.cli.beside import Beside

    return Beside()


async def _add(gathered: Gathered, tally: Tally, how: How) -> None:
    from penstock.cli.adding import Adder
    from penstock.documents import ensure_collection
    from penstock.pipelines import Product

    for path, reason in gathered.faults:
        tally.note(Entry(path, "refused", reason=reason))
        tally.looked_at -= 1  # it is not among the files
    async with Product(role="add") as product, _warmed(product, how):
        collection = await ensure_collection(product.app, tally.collection, tenant=product.settings.tenant)
        adder = Adder(product, collection, tally, replace=how.replace, metadata=how.metadata)
        adding = asyncio.create_task(adder.add(gathered.files), name="add")
        try:
            await _follow(product, tally, adding, how)
        finally:
            adding.cancel()
            await asyncio.wait([adding])


@asynccontextmanager
async def _warmed(product: "Product", how: How) -> "AsyncIterator[None]":
    """For many files, what the first of them would wait for begins at once: a reader process, and the built-in model."""
    if how.beside is None:
        yield
        return
    from penstock.models import load_static

    warming = [
        asyncio.create_task(product.boxes.inspect(), name="warm reader"),
        asyncio.create_task(asyncio.to_thread(load_static), name="warm model"),
    ]
    try:
        yield
    finally:
        await asyncio.gather(*warming, return_exceptions=True)  # the first document that needs them tells what is wrong


async def _follow(product: "Product", tally: Tally, adding: "asyncio.Task[None]", how: How) -> None:
    """Until everything is accepted, or until it is ready: with --wait, or because nobody else would make it so."""
    from penstock.cli.watching import Watcher

    watcher = Watcher(product, tally, how.show, how.say, how.beside)
    served = await watcher.is_served()
    tally.waiting = how.wait or not served
    try:
        if not served and await _first_open(tally, adding):
            watcher.work()
        if tally.waiting:
            await watcher.until_settled(adding)
        while not adding.done():
            await asyncio.wait([adding], timeout=0.25)
            how.show()
        await adding
        if not tally.waiting:
            await watcher.look()
        await _note_old_versions(product, tally)
        if watcher.working and (others := await watcher.others_waiting()):
            number = "more than 10,000 other documents" if others > 10_000 else counted(others, "other document")
            how.say(f"There are {number} without a worker: start one with `penstock worker` or `penstock up`.")
    finally:
        await watcher.stop()


async def _note_old_versions(product: "Product", tally: Tally) -> None:
    """A new version that failed has not taken the old one away: the reason says so."""
    from penstock.cli.adding import NAMES_AT_ONCE, batched
    from penstock.documents import show_documents

    failed = {entry.id: entry for entry in tally.failures if entry.id is not None and entry.status == FAILED}
    for some in batched(list(failed), NAMES_AT_ONCE):
        for document in await show_documents(product.app, some, tenant=product.settings.tenant):
            if document.status == FAILED and document.live_version is not None:
                entry = failed[document.id]
                old = f"version {document.live_version} is still found"
                entry.reason = f"version {document.version} failed: {entry.reason.rstrip('. ')}; {old}"


async def _first_open(tally: Tally, adding: "asyncio.Task[None]") -> bool:
    """Whether there is anything to work on: known with the first document, or at the end."""
    appeared = asyncio.create_task(tally.appeared.wait())
    await asyncio.wait([adding, appeared], return_when=asyncio.FIRST_COMPLETED)
    appeared.cancel()
    return bool(tally.open)


def _report(tally: Tally, gathered: Gathered, *, interrupted: bool, as_json: bool) -> None:
    if as_json:
        left_out = [{"path": printable(path), "reason": reason} for path, reason in gathered.left_out]
        print_json(_clean(tally.facts() | {"left_out": left_out, "interrupted": interrupted}))
        return
    if interrupted:
        missing = tally.files - tally.looked_at
        typer.echo(
            f"Interrupted: {counted(missing, 'file')} not looked at. The same command goes on where this one ended."
        )
    typer.echo(_sentence(tally))
    if failures := list(tally.failures):
        typer.secho(f"{counted(len(failures), 'failure')}:", bold=True)
        for entry in failures[:SHOWN]:
            number = "" if entry.id is None or entry.added == "refused" else f" ({entry.id})"
            console().print(printable(f"  {entry.name}{number}: {entry.reason}"), soft_wrap=True)
        if len(failures) > SHOWN:
            typer.echo(f"  and {len(failures) - SHOWN:,} more: `penstock documents list --status failed`")
    if gathered.left_out:
        some = ", ".join(f"{path} ({reason})" for path, reason in gathered.left_out[:5])
        more = ", …" if len(gathered.left_out) > 5 else ""
        typer.echo(printable(f"Left out: {len(gathered.left_out):,}, such as {some}{more}"))


def _sentence(tally: Tally) -> str:
    accepted, skipped, members = (tally.count(what) for what in ("accepted", "skipped", "member"))
    there = f", {skipped:,} already there" if skipped else ""
    said = f"Accepted {counted(accepted, 'document')} ({size(tally.sent)}){there} in the collection {tally.collection}."
    if tally.waiting:
        inside = f" ({members:,} of them from inside of others)"
        gaps = sum(entry.gaps > 0 for entry in tally.entries)
        said += f" {tally.ready:,} ready{inside if members else ''}"
        said += f", {gaps:,} of them with gaps" if gaps else ""
        said += f", {tally.failed:,} failed, after {tally.elapsed:.1f} s ({tally.rate:.1f} per second)."
    elif tally.open:
        said += " A worker prepares them: `penstock status` says how far it is."
    return said


def _clean(facts: dict[str, Any]) -> dict[str, Any]:
    for document in facts["documents"]:
        document["name"] = printable(document["name"])
    return facts
