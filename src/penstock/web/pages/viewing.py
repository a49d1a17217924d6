"""What several pages ask for: the collections that a viewer sees, and the one that it has chosen."""

from collections.abc import Sequence

from penstock.documents import Collection
from penstock.errors import NotFound
from penstock.web.caller import Caller


async def seen_by(caller: Caller) -> Sequence[int] | None:
    """The numbers of the collections that it may see; None for all of its tenant."""
    return None if caller.principal.collections is None else sorted(caller.principal.collections)


def choose(collections: Sequence[Collection], name: str) -> Collection | None:
    """The collection of this name; NotFound for one that it does not see."""
    if not name:
        return None
    for each in collections:
        if each.name == name:
            return each
    raise NotFound(f"There is no collection {name}: see the list for those that there are.")
