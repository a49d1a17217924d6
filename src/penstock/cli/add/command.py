"""The command: its options, its course, and its report.

It needs no API: the database and the blob store are enough. With a live worker it ends when everything is accepted, or with
--wait when everything is ready. Without one it does the work itself.
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

from penstock.cli.add.discover import FoundFiles, discover, printable
from penstock.cli.add.progress import FAILED, AddProgress, Entry, Say, Show, display, size
from penstock.cli.server import ShutdownRequest, run_until_stopped
from penstock.cli.session import Into, Json, console, print_json
from penstock.errors import BadValue, PenstockError
from penstock.settings import LogSettings, load_settings
from penstock.text import counted

if TYPE_CHECKING:
    from penstock.cli.add.helper_worker import HelperWorker
    from penstock.product import Product

SHOWN = 20  # failures, and what was left out
MANY = 100  # files for which another process is worth its start


@dataclass(frozen=True)
class AddOptions:
    """The options of the command, and the functions of its display."""

    metadata: dict[str, Any]
    show: Show
    say: Say
    helper: "HelperWorker | None"
    wait: bool
    replace: bool


def add(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    collection: Into = "default",
    wait: Annotated[bool, typer.Option("--wait", help="Until every document is ready or failed.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put other content in the place of the same name.")
    ] = False,
    metadata: Annotated[str, typer.Option(help="A JSON object that every document gets.")] = "{}",
    as_json: Json = False,
) -> None:
    """Add files and folders to a collection; what is there already with the same content is left alone."""
    facts = _metadata(metadata)
    found = discover(paths)
    progress = AddProgress(collection, files=len(found.files), size=sum(file.size for file in found.files))
    settings = load_settings().settings.model_copy(update={"log": LogSettings(level="error")})  # not into the display

    async def main(stop: ShutdownRequest) -> int:
        with display(progress, as_json=as_json) as (show, say):
            options = AddOptions(facts, show, say, helper, wait, replace)
            adding = asyncio.create_task(_add(found, progress, options))
            return await _until_stopped(adding, stop)

    try:
        with _another_process(progress) as helper:
            code = run_until_stopped(settings, main)
    except PenstockError:
        if progress.entries:  # what was accepted before must be known
            _report(progress, found, interrupted=True, as_json=as_json)
        raise
    _report(progress, found, interrupted=code >= 128, as_json=as_json)
    raise typer.Exit(code or int(any(progress.failures)))


def _metadata(text: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except ValueError as error:
        raise BadValue(f"--metadata is not JSON ({error}): write something like '{{\"year\": 2024}}'.") from None
    if not isinstance(facts, dict):
        raise BadValue("--metadata is not a JSON object: write something like '{\"year\": 2024}'.")
    return facts


async def _until_stopped(adding: "asyncio.Task[None]", stop: ShutdownRequest) -> int:
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


def _another_process(progress: AddProgress) -> "AbstractContextManager[HelperWorker | None]":
    if progress.files < MANY:
        return nullcontext()
    import penstock.product  # noqa: F401  before the fork, for both
    from penstock.cli.add.helper_worker import HelperWorker

    return HelperWorker()


async def _add(found: FoundFiles, progress: AddProgress, options: AddOptions) -> None:
    from penstock.cli.add.upload import Uploader
    from penstock.documents import ensure_collection
    from penstock.product import Product

    for path, reason in found.faults:
        progress.note(Entry(path, "refused", reason=reason))
        progress.looked_at -= 1  # it is not among the files
    async with Product(role="add") as product, _warmed(product, options):
        collection = await ensure_collection(product.app, progress.collection, tenant=product.settings.tenant)
        adder = Uploader(product, collection, progress, replace=options.replace, metadata=options.metadata)
        adding = asyncio.create_task(adder.add(found.files), name="add")
        try:
            await _follow(product, progress, adding, options)
        finally:
            adding.cancel()
            await asyncio.wait([adding])


@asynccontextmanager
async def _warmed(product: "Product", options: AddOptions) -> "AsyncIterator[None]":
    """For many files, what the first of them would wait for begins at once: a reader process, and the built-in model."""
    if options.helper is None:
        yield
        return
    from penstock.models import load_static

    warming = [
        asyncio.create_task(product.sandboxes.inspect(), name="warm reader"),
        asyncio.create_task(asyncio.to_thread(load_static), name="warm model"),
    ]
    try:
        yield
    finally:
        await asyncio.gather(*warming, return_exceptions=True)  # the first document that needs them reports an error


async def _follow(product: "Product", progress: AddProgress, adding: "asyncio.Task[None]", options: AddOptions) -> None:
    """Until everything is accepted, or until it is ready: with --wait, or because no other worker would do it."""
    from penstock.cli.add.wait import Watcher

    watcher = Watcher(product, progress, options.show, options.say, options.helper)
    served = await watcher.is_served()
    progress.waiting = options.wait or not served
    try:
        if not served and await _first_open(progress, adding):
            watcher.work()
        if progress.waiting:
            await watcher.until_settled(adding)
        while not adding.done():
            await asyncio.wait([adding], timeout=0.25)
            options.show()
        await adding
        if not progress.waiting:
            await watcher.poll()
        await _note_old_versions(product, progress)
        if watcher.working and (others := await watcher.others_waiting()):
            number = "more than 10,000 other documents" if others > 10_000 else counted(others, "other document")
            options.say(f"There are {number} without a worker: start one with `penstock worker` or `penstock up`.")
    finally:
        await watcher.stop()


async def _note_old_versions(product: "Product", progress: AddProgress) -> None:
    """A new version that failed has not taken the old one away: the reason says so."""
    from penstock.cli.add.upload import NAMES_AT_ONCE, batched
    from penstock.documents import show_documents

    failed = {entry.id: entry for entry in progress.failures if entry.id is not None and entry.status == FAILED}
    for some in batched(list(failed), NAMES_AT_ONCE):
        for document in await show_documents(product.app, some, tenant=product.settings.tenant):
            if document.status == FAILED and document.live_version is not None:
                entry = failed[document.id]
                old = f"version {document.live_version} is still found"
                entry.reason = f"version {document.version} failed: {entry.reason.rstrip('. ')}; {old}"


async def _first_open(progress: AddProgress, adding: "asyncio.Task[None]") -> bool:
    """Whether there is anything to work on: known with the first document, or at the end."""
    appeared = asyncio.create_task(progress.appeared.wait())
    await asyncio.wait([adding, appeared], return_when=asyncio.FIRST_COMPLETED)
    appeared.cancel()
    return bool(progress.open)


def _report(progress: AddProgress, found: FoundFiles, *, interrupted: bool, as_json: bool) -> None:
    if as_json:
        left_out = [{"path": printable(path), "reason": reason} for path, reason in found.left_out]
        print_json(_clean(progress.facts() | {"left_out": left_out, "interrupted": interrupted}))
        return
    if interrupted:
        missing = progress.files - progress.looked_at
        typer.echo(
            f"Interrupted: {counted(missing, 'file')} not looked at. The same command goes on where this one ended."
        )
    typer.echo(_sentence(progress))
    if failures := list(progress.failures):
        typer.secho(f"{counted(len(failures), 'failure')}:", bold=True)
        for entry in failures[:SHOWN]:
            number = "" if entry.id is None or entry.added == "refused" else f" ({entry.id})"
            console().print(printable(f"  {entry.name}{number}: {entry.reason}"), soft_wrap=True)
        if len(failures) > SHOWN:
            typer.echo(f"  and {len(failures) - SHOWN:,} more: `penstock documents list --status failed`")
    if found.left_out:
        some = ", ".join(f"{path} ({reason})" for path, reason in found.left_out[:5])
        more = ", …" if len(found.left_out) > 5 else ""
        typer.echo(printable(f"Left out: {len(found.left_out):,}, such as {some}{more}"))


def _sentence(progress: AddProgress) -> str:
    accepted, skipped, members = (progress.count(what) for what in ("accepted", "skipped", "member"))
    there = f", {skipped:,} already there" if skipped else ""
    said = f"Accepted {counted(accepted, 'document')} ({size(progress.sent)}){there} in the collection {progress.collection}."
    if progress.waiting:
        inside = f" ({members:,} of them from inside of others)"
        gaps = sum(entry.gaps > 0 for entry in progress.entries)
        said += f" {progress.ready:,} ready{inside if members else ''}"
        said += f", {gaps:,} of them with gaps" if gaps else ""
        said += f", {progress.failed:,} failed, after {progress.elapsed:.1f} s ({progress.rate:.1f} per second)."
    elif progress.open:
        said += " A worker prepares them: `penstock status` says how far it is."
    return said


def _clean(facts: dict[str, Any]) -> dict[str, Any]:
    for document in facts["documents"]:
        document["name"] = printable(document["name"])
    return facts
