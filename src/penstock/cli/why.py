"""`penstock why …`: one sentence about a document, packet, crawl, job, message or source, then what it was told from."""

from contextlib import suppress
from typing import Annotated

import typer

from penstock.cli.asking import Json, ask, print_json
from penstock.engine import Penstock
from penstock.engine.explain import Explanation
from penstock.errors import JobNotFound, NotFound


def why(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="DOCUMENT|JOB|PACKET|CRAWL|MESSAGE|SOURCE",
            help="Its number; or the name of a document, collection/name, source/message, or the name of a source.",
        ),
    ],
    as_json: Json = False,
) -> None:
    """Say why a document, packet, job or message is where it is, or why nothing comes from a source."""
    explanation = ask(lambda penstock: _explain(penstock, reference))
    if as_json:
        print_json(vars(explanation))
    if explanation.state == "not found":
        raise JobNotFound(explanation.sentence)
    if not as_json:
        typer.echo(explanation.sentence)
        for line in explanation.evidence_lines:
            typer.echo(f"  {line}")


async def _explain(penstock: Penstock, reference: str) -> Explanation:
    """Crawls have numbers of the same sequence as all others, and no names."""
    from penstock.documents.explain import explain_anything
    from penstock.knowledge.explain import explain_crawl

    tenant = penstock.settings.tenant
    if reference.isascii() and reference.isdecimal():
        with suppress(NotFound):
            return await explain_crawl(penstock, int(reference), tenant=tenant)
    return await explain_anything(penstock, reference, tenant=tenant)
