"""`penstock why ID`: one sentence, and with --json the evidence."""

from typing import Annotated

import typer

from penstock.cli.asking import Json, ask, print_json
from penstock.errors import JobNotFound


def why(job_id: Annotated[int, typer.Argument(metavar="ID")], as_json: Json = False) -> None:
    """Say why a job is where it is."""
    explanation = ask(lambda penstock: penstock.why(job_id))
    if as_json:
        print_json(vars(explanation))
    if explanation.state == "not found":
        raise JobNotFound(explanation.sentence)
    if not as_json:
        typer.echo(explanation.sentence)
