"""`penstock history`: the life of a document, event by event, with the time between them."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

import typer

from penstock.cli.asking import Json, ask, print_json, print_table, shortened
from penstock.documents.catalog import find_document
from penstock.documents.life import Moment, tell_life
from penstock.engine import Penstock
from penstock.engine.wording import span


def tell_history(
    reference: Annotated[str, typer.Argument(metavar="DOCUMENT", help="Its number, its name, or collection/name.")],
    as_json: Json = False,
) -> None:
    """Tell what happened to a document, oldest first, with the tries of its jobs and the time between them."""

    async def look(penstock: Penstock) -> list[Moment]:
        document = await find_document(penstock, reference, tenant=penstock.settings.tenant)
        return await tell_life(penstock, document.id, tenant=penstock.settings.tenant)

    moments = ask(look)
    if as_json:
        print_json({"events": [each.as_json() for each in moments]})
        return
    print_table(("at", "after", "event", "details"), map(_cells, moments))


def _cells(moment: Moment) -> tuple[object, ...]:
    after = "" if moment.after is None else span(moment.after)
    told = _tell_try(moment.details) if moment.event == "attempt" else _tell(moment.details)
    return f"{moment.at:%Y-%m-%d %H:%M:%S}", after, moment.event, shortened(told, 200)


def _tell(details: Mapping[str, Any]) -> str:
    return str(details["message"]) if "message" in details else ", ".join(f"{key}: {details[key]}" for key in details)


def _tell_try(details: Mapping[str, Any]) -> str:
    took = span(timedelta(seconds=details["seconds"])) if "seconds" in details else "an unknown time"
    said = f": {details['error']}" if details.get("error") else ""
    where = f"{details['number']} of job {details['job']} on {details.get('worker', 'nobody')}"
    return f"{where}: {details['outcome']} after {took}{said}"
