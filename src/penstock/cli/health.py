"""`penstock health`: whether a process of this machine answers; for probes that run a command."""

import http.client
import json
from http import HTTPStatus
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
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", f"/health/{what}")
        answer = connection.getresponse()
        told = json.load(answer)
        return answer.status == HTTPStatus.OK, "; ".join(told.get("problems", [])) or told["status"]
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        return False, f"no answer ({error})"
    finally:
        connection.close()
