"""`penstock why …`: one sentence about a document, a packet, a job, a message or a source, then what it was told from."""

from typing import Annotated

import typer

from penstock.cli.asking import Json, ask, print_json
from penstock.errors import JobNotFound


def why(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="DOCUMENT|JOB|PACKET|MESSAGE|SOURCE",
            help="Its number; or the name of a document, collection/name, source/message, or the name of a source.",
        ),
    ],
    as_json: Json = False,
) -> None:
    """Say why a document, packet, job or message is where it is, or why nothing comes from a source."""
    from penstock.documents.explain import explain_anything

    explanation = ask(lambda penstock: explain_anything(penstock, reference, tenant=penstock.settings.tenant))
    if as_json:
        print_json(vars(explanation))
    if explanation.state == "not found":
        raise JobNotFound(explanation.sentence)
    if not as_json:
        typer.echo(explanation.sentence)
        for line in explanation.evidence_lines:
            typer.echo(f"  {line}")
