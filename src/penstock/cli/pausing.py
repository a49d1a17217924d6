"""`penstock pause` and `penstock resume`: hold the jobs of a queue, a kind or a share, and let them go on."""

from typing import Annotated, Any

import typer

from penstock.cli.asking import Json, ask, print_json
from penstock.engine import Penstock
from penstock.engine.queue import sql

Queue = Annotated[str, typer.Option(help="The queue.")]
KindName = Annotated[str, typer.Option("--kind", help="The kind.")]
Share = Annotated[str, typer.Option(help="The share.")]


def pause(
    queue: Queue = "",
    kind: KindName = "",
    share: Share = "",
    reason: Annotated[str, typer.Option(help="Shown by why and doctor.")] = "paused by hand",
    as_json: Json = False,
) -> None:
    """Claim nothing of a queue, a kind or a share until resume; what runs goes on."""
    what, name = _chosen(queue, kind, share)

    async def hold(penstock: Penstock) -> bool:
        await penstock.pause(queue=queue, kind=kind, share=share, reason=reason)
        known: list[Any] = await penstock.database.pool.repeat(
            lambda session: sql.queues_resumed(session, what=what, name=name)
        )
        return bool(known)

    known = ask(hold)
    if as_json:
        print_json({"paused": {"what": what, "name": name, "reason": reason}, "known": known})
        return
    typer.echo(f"The {what} {name} is paused.")
    if not known:
        typer.echo(f"No job of such a {what} has been seen so far: check the name.", err=True)


def resume(queue: Queue = "", kind: KindName = "", share: Share = "", as_json: Json = False) -> None:
    """End a pause."""
    what, name = _chosen(queue, kind, share)
    resumed = ask(lambda penstock: penstock.resume(queue=queue, kind=kind, share=share))
    if as_json:
        print_json({"resumed": resumed, "what": what, "name": name})
    else:
        typer.echo(f"The {what} {name} goes on." if resumed else f"The {what} {name} was not paused.")


def _chosen(queue: str, kind: str, share: str) -> tuple[str, str]:
    """For the sentences; that there is exactly one is checked by the call itself."""
    given = {"queue": queue, "kind": kind, "share": share}
    return next(((what, name) for what, name in given.items() if name), ("queue", ""))
