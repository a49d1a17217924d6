"""The command: its options, its course, and its report.

It needs no API, only the database and the blob store. With a running worker it ends when everything is accepted, or with
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
from penstock.cli.session import (
    DEFAULT,
    Create,
    Into,
    Json,
    console,
    print_json,
    report,
    report_start,
    target_collection,
)
from penstock.errors import BadValue, PenstockError
from penstock.settings import LogSettings, load_settings
from penstock.text import counted

if TYPE_CHECKING:
    from penstock.cli.add.helper_worker import HelperWorker
    from penstock.product import Product

SHOWN = 20  # failures
MANY = 100  # files that justify the start of another process


@dataclass(frozen=True)
class AddOptions:
    """The options of the command, and the functions of its display."""

    metadata: dict[str, Any]
    show: Show
    say: Say
    helper: "HelperWorker | None"
    wait: bool
    replace: bool
    create: bool


def add(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders to add.")],
    collection: Into = DEFAULT,
    create: Create = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until every document is ready or failed.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Add a new version if the name exists with other content.")
    ] = False,
    metadata: Annotated[str, typer.Option(help="Metadata of every document, as a JSON object.")] = "{}",
    as_json: Json = False,
) -> None:
    """Add files and folders to a collection. Files that it already has are skipped."""
    facts = _metadata(metadata)
    if not as_json:
        report("Finding the files …")
    found = discover(paths)
    if not as_json:
        report(f"Adding {counted(len(found.files), 'file')} to the collection {collection} …")
        report_start()
    progress = AddProgress(collection, files=len(found.files), size=sum(file.size for file in found.files))
    settings = load_settings().settings.model_copy(update={"log": LogSettings(level="error")})  # not into the display

    async def main(stop: ShutdownRequest) -> int:
        with display(progress, as_json=as_json) as (show, say):
            options = AddOptions(facts, show, say, helper, wait, replace, create)
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
    from penstock.product import Product

    for path, reason in found.faults:
        progress.note(Entry(path, "refused", reason=reason))
        progress.processed -= 1  # it is not among the files
    async with Product(role="add") as product, _warmed(product, options):
        collection = await target_collection(product.app, progress.collection, create=options.create)
        adder = Uploader(product, collection, progress, replace=options.replace, metadata=options.metadata)
        adding = asyncio.create_task(adder.add(found.files), name="add")
        try:
            await _follow(product, progress, adding, options)
        finally:
            adding.cancel()
            await asyncio.wait([adding])


@asynccontextmanager
async def _warmed(product: "Product", options: AddOptions) -> "AsyncIterator[None]":
    """For many files, start a reader process and load the built-in model before the first file needs them."""
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
    """Wait until everything is accepted; with --wait or without another worker, until it is ready."""
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
            options.say(f"No worker serves {number}: start one with `penstock worker` or `penstock up`.")
    finally:
        await watcher.stop()


async def _note_old_versions(product: "Product", progress: AddProgress) -> None:
    """A new version that failed has not replaced the old one: add this to the reason."""
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
    """Whether there is work to do: known with the first document, or at the end."""
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
        missing = progress.files - progress.processed
        typer.echo(f"Interrupted: {counted(missing, 'file')} not processed. Run the same command again to continue.")
    typer.echo(_sentence(progress))
    if failures := list(progress.failures):
        typer.secho(f"{counted(len(failures), 'failure')}:", bold=True)
        for entry in failures[:SHOWN]:
            known = "" if entry.id is None or entry.added == "refused" else f" ({entry.id})"
            console().print(printable(f"  {entry.name}{known}: {entry.reason}"), soft_wrap=True)
        if len(failures) > SHOWN:
            typer.echo(f"  and {len(failures) - SHOWN:,} more: `penstock documents list --status failed`")
    if found.left_out:
        some = ", ".join(f"{path} ({reason})" for path, reason in found.left_out[:5])
        more = ", …" if len(found.left_out) > 5 else ""
        typer.echo(printable(f"Skipped: {len(found.left_out):,}, such as {some}{more}"))


def _sentence(progress: AddProgress) -> str:
    accepted, skipped, members = (progress.count(what) for what in ("accepted", "skipped", "member"))
    there = f", {skipped:,} already there" if skipped else ""
    sentence = (
        f"Accepted {counted(accepted, 'document')} ({size(progress.sent)}){there} in collection {progress.collection}."
    )
    if progress.waiting:
        attachments = f" (including {counted(members, 'attachment')})" if members else ""
        partial = sum(entry.gaps > 0 for entry in progress.entries)
        sentence += f" {progress.ready:,} ready{attachments}"
        sentence += f", {partial:,} only partly readable (`penstock documents list --partial`)" if partial else ""
        sentence += f", {progress.failed:,} failed, after {progress.elapsed:.1f} s ({progress.rate:.1f} per second)."
    elif progress.open:
        sentence += " A worker prepares them: `penstock status` shows the progress."
    return sentence


def _clean(facts: dict[str, Any]) -> dict[str, Any]:
    for document in facts["documents"]:
        document["name"] = printable(document["name"])
    return facts
