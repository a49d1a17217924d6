"""The command line: all commands, and errors as sentences and exit codes.

0: done. 1: it ran, and something failed. 2: it could not run as things are (a sentence on stderr says what to do).
130: interrupted.
"""

import io
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from penstock import __version__
from penstock.cli import (
    admin,
    collections,
    crawl,
    db,
    documents,
    fleet,
    jobs,
    knowledge,
    memos,
    operations,
    packets,
    schedules,
    search,
    server,
    sources,
    up,
)
from penstock.cli.add import command
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
app.command("add")(command.add)
app.command("search")(search.search)
app.command("extract")(knowledge.extract)
app.command("facts")(knowledge.facts)
app.command("status")(operations.status)
app.add_typer(collections.app, name="collections")
app.command("reindex")(collections.reindex)
app.add_typer(documents.app, name="documents")
app.add_typer(packets.app, name="packet")
app.add_typer(crawl.app, name="crawl")
app.add_typer(sources.sources_app, name="sources")
app.add_typer(sources.inbox_app, name="inbox")
app.command("streams")(memos.streams)
app.command("memos")(memos.memos)
app.command("delete")(documents.delete_documents)
app.command("restore")(documents.restore)
app.command("receipt")(documents.receipt)
app.add_typer(admin.model_app, name="model")
app.add_typer(admin.key_app, name="key")
app.command("api")(server.api)
app.command("worker")(server.worker)
app.command("fleet")(fleet.fleet)
app.add_typer(jobs.app, name="jobs")
app.add_typer(jobs.dead_app, name="dead")
app.add_typer(schedules.app, name="schedule")
app.add_typer(fleet.limits_app, name="limits")
app.add_typer(operations.metrics_app, name="metrics")
app.command("why")(operations.why)
app.command("pause")(jobs.pause)
app.command("resume")(jobs.resume)
app.command("history")(documents.tell_history)
app.command("doctor")(operations.doctor)
app.command("health")(operations.health)
app.command("invariants")(operations.invariants)
app.command("config")(admin.config)
app.add_typer(db.app, name="db")


@app.callback()
def options(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings file, in place of penstock.toml in home.")
    ] = None,
) -> None:
    if config is not None:
        os.environ["PENSTOCK_CONFIG"] = str(config.absolute())  # for the processes that a command starts, too


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    write_whole()
    mask_tracebacks()
    try:
        app()
    except (CannotStart, BadJob, JobNotFound, Refused) as error:
        sys.exit(_say(error, 2))
    except PenstockError as error:
        sys.exit(_say(error, 1))
    except Exception:  # noqa: BLE001  a defect: its fix needs the traceback, without the secrets in it
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
    """Without secrets, which are not known yet if the error came before the settings were read."""
    with suppress(BadSetting):
        hide_secrets(load_settings().settings)
    return mask(text)
