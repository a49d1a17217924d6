"""`penstock health`: whether a process of this machine answers; for probes that run a command."""

import json
import urllib.error
import urllib.request
from typing import Annotated

import typer

from penstock.settings import load_settings

PATIENCE = 3.0  # seconds


def health(
    port: Annotated[list[int] | None, typer.Option(help="Where; may be repeated: one that answers is enough.")] = None,
    ready: Annotated[bool, typer.Option("--ready", help="Ask whether it can do its work, too.")] = False,
) -> None:
    """Say whether the API or a worker of this machine is alive; exit code 1 if not."""
    said = []
    for number in port or [load_settings().settings.api.port]:
        alive, answer = _ask(number, "ready" if ready else "live")
        said.append(f"port {number}: {answer}")
        if alive:
            typer.echo(said[-1])
            return
    typer.echo("\n".join(said), err=True)
    raise typer.Exit(1)


def _ask(port: int, what: str) -> tuple[bool, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/{what}", timeout=PATIENCE) as answer:
            return True, json.load(answer)["status"]
    except urllib.error.HTTPError as error:
        return False, "; ".join(json.load(error).get("problems", [])) or f"status {error.code}"
    except (OSError, ValueError) as error:
        return False, f"no answer ({getattr(error, 'reason', error)})"
