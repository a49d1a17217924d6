"""Puts the commands together and turns errors into sentences and exit codes.

0: done. 1: it ran, and something failed. 2: it could not run as things are (a sentence on stderr says what to do).
130: interrupted.
"""

import io
import sys
import traceback
from contextlib import suppress

import typer

from penstock import __version__
from penstock.cli import (
    add,
    collections,
    config,
    crawl,
    db,
    dead,
    delete,
    doctor,
    documents,
    extract,
    fleet,
    health,
    history,
    inbox,
    invariants,
    jobs,
    key,
    limits,
    memos,
    metrics,
    model,
    packet,
    pausing,
    processes,
    reindex,
    schedule,
    search,
    status,
    streams,
    up,
    why,
)
from penstock.errors import BadJob, BadSetting, CannotStart, JobNotFound, PenstockError, Refused
from penstock.settings import load_settings
from penstock.telemetry import hide_secrets, mask, mask_tracebacks

app = typer.Typer(
    name="penstock",
    help="Documents in, searchable knowledge out: never stuck, never twice, never lost.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("up")(up.up)
app.command("add")(add.add)
app.command("search")(search.search)
app.command("extract")(extract.extract)
app.command("facts")(extract.facts)
app.command("status")(status.status)
app.add_typer(collections.app, name="collections")
app.command("reindex")(reindex.reindex)
app.add_typer(documents.app, name="documents")
app.add_typer(packet.app, name="packet")
app.add_typer(crawl.app, name="crawl")
app.add_typer(inbox.sources_app, name="sources")
app.add_typer(inbox.app, name="inbox")
app.command("streams")(streams.streams)
app.command("memos")(memos.memos)
app.command("delete")(delete.delete)
app.command("restore")(delete.restore)
app.command("receipt")(delete.receipt)
app.add_typer(model.app, name="model")
app.add_typer(key.app, name="key")
app.command("api")(processes.api)
app.command("worker")(processes.worker)
app.command("fleet")(fleet.fleet)
app.add_typer(jobs.app, name="jobs")
app.add_typer(dead.app, name="dead")
app.add_typer(schedule.app, name="schedule")
app.add_typer(limits.app, name="limits")
app.add_typer(metrics.app, name="metrics")
app.command("why")(why.why)
app.command("pause")(pausing.pause)
app.command("resume")(pausing.resume)
app.command("history")(history.tell_history)
app.command("doctor")(doctor.doctor)
app.command("health")(health.health)
app.command("invariants")(invariants.invariants)
app.command("config")(config.config)
app.add_typer(db.app, name="db")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run the command line and exit."""
    write_whole()
    mask_tracebacks()
    try:
        app()
    except (CannotStart, BadJob, JobNotFound, Refused) as error:
        sys.exit(_say(error, 2))
    except PenstockError as error:
        sys.exit(_say(error, 1))
    except Exception:  # noqa: BLE001  a defect: whoever mends it needs the traceback, and nobody needs the secrets in it
        sys.stderr.write(_masked(traceback.format_exc()))
        sys.exit(1)


def write_whole() -> None:
    """Give stdout a buffer although PYTHONUNBUFFERED took it away, as many container images do.

    Without one, Python does not repeat a write of which the kernel took only a part: a long answer would end in its middle
    when its reader is slow.
    """
    if isinstance(sys.stdout.buffer, io.RawIOBase):
        descriptor, encoding = sys.stdout.fileno(), sys.stdout.encoding
        sys.stdout = open(descriptor, "w", buffering=1, encoding=encoding, closefd=False)  # noqa: SIM115


def _say(error: PenstockError, code: int) -> int:
    typer.secho(_masked(str(error)), err=True, fg="red")
    return code


def _masked(text: str) -> str:
    """It may have failed before anybody has read the settings, and so before their secrets were known."""
    with suppress(BadSetting):
        hide_secrets(load_settings().settings)
    return mask(text)
