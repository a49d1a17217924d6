"""The command line: all commands by section, and errors as sentences and exit codes.

0: done. 1: it ran, and something failed. 2: it could not run (a sentence on stderr gives the reason and the fix).
130: interrupted.
"""

import io
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from penstock import __version__
from penstock.cli import (
    admin,
    collections,
    crawls,
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


class Sections(TyperGroup):
    """Lists the commands by section; typer does so only with rich markup."""

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                room = formatter.width - width - 6
                formatter.write_dl(
                    [(name.ljust(width), self.commands[name].get_short_help_str(room)) for name in names]
                )


app = typer.Typer(
    cls=Sections,
    name="penstock",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def penstock(
    print_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings file, in place of penstock.toml in home.")
    ] = None,
) -> None:
    """Turn files into searchable knowledge. `penstock help COMMAND` explains a command."""
    if config is not None:
        os.environ["PENSTOCK_CONFIG"] = str(config.absolute())  # for the processes that a command starts, too


def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def show_help(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Such as: documents list.")] = None,
) -> None:
    """Show the help of a command."""
    context.find_root().command.main([*(words or ()), "--help"], prog_name="penstock")


SECTIONS: dict[str, dict[str, typer.Typer | Callable[..., None]]] = {
    "Documents": {
        "add": command.add,
        "delete": documents.delete_documents,
        "restore": documents.restore,
        "documents": documents.app,
        "collections": collections.app,
        "packets": packets.app,
    },
    "Search and answers": {
        "search": search.search,
        "extract": knowledge.extract,
        "facts": knowledge.facts_app,
        "memos": memos.app,
        "streams": memos.streams_app,
    },
    "Ingest": {
        "sources": sources.sources_app,
        "inbox": sources.inbox_app,
        "crawls": crawls.app,
    },
    "Jobs": {
        "jobs": jobs.app,
        "dead": jobs.dead_app,
        "schedules": schedules.app,
        "pause": jobs.pause,
        "resume": jobs.resume,
        "limits": fleet.limits_app,
    },
    "Operate": {
        "status": operations.status,
        "why": operations.why,
        "doctor": operations.doctor_app,
        "fleet": fleet.fleet,
        "metrics": operations.metrics_app,
        "invariants": operations.invariants,
        "health": operations.health,
    },
    "Server": {
        "up": up.up,
        "api": server.api,
        "worker": server.worker,
        "db": db.app,
        "config": admin.config,
        "keys": admin.keys_app,
        "models": admin.models_app,
        "version": version,
        "help": show_help,
    },
}
for _commands in SECTIONS.values():
    for _name, _command in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name)
        else:
            app.command(_name)(_command)


def run_command_line() -> None:
    """Run a command and exit."""
    write_whole()
    mask_tracebacks()
    try:
        app(prog_name="penstock")
    except (CannotStart, BadJob, JobNotFound, Refused) as error:
        sys.exit(_fail(error, 2))
    except PenstockError as error:
        sys.exit(_fail(error, 1))
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


def _fail(error: PenstockError, code: int) -> int:
    typer.secho(_masked(str(error)), err=True, fg="red")
    return code


def _masked(text: str) -> str:
    """Without secrets, which are not known yet if the error came before the settings were read."""
    with suppress(BadSetting):
        hide_secrets(load_settings().settings)
    return mask(text)
