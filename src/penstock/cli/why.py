"""`penstock why …`: one sentence about a document or a job, and with --json the evidence."""

from typing import Annotated

import typer

from penstock.cli.asking import Json, ask, print_json
from penstock.engine import Penstock
from penstock.engine.explain import Explanation
from penstock.errors import JobNotFound, NotFound

LARGEST = 2**63 - 1


def why(
    reference: Annotated[
        str,
        typer.Argument(metavar="ID|NAME", help="A document's or job's number, a document's name, or collection/name."),
    ],
    as_json: Json = False,
) -> None:
    """Say why a document or a job is where it is."""
    explanation = ask(lambda penstock: _explain(penstock, reference))
    if as_json:
        print_json(vars(explanation))
    if explanation.state == "not found":
        raise JobNotFound(explanation.sentence)
    if not as_json:
        typer.echo(explanation.sentence)


async def _explain(penstock: Penstock, reference: str) -> Explanation:
    """Documents and jobs share one sequence: a number names one of them."""
    number = int(reference) if reference.isascii() and reference.isdecimal() else None
    if number is not None and number <= LARGEST:
        explanation = await penstock.why(number)
        if explanation.state != "not found":
            return explanation
    from penstock.documents import explain_document, find_document

    try:
        document = await find_document(penstock, reference, tenant=penstock.settings.tenant)
    except NotFound:
        if number is None:
            raise
        sentence = f"There is no job {number}, neither alive nor in the history, and no document of this number."
        return Explanation(sentence, "not found", {}, "not found")
    return await explain_document(penstock, document.id, tenant=penstock.settings.tenant)
