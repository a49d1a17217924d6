# Made from ../_async/jobs.py by `python -m tests.client.unasync`: change that one.
"""`client.jobs`: for who runs the fleet."""

from penstock.client._sync.wire import Wire
from penstock.client.decoding import decode
from penstock.client.results import Why


class Jobs:
    """Jobs by number."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def why(self, id: int) -> Why:  # noqa: A002
        """Why it is where it is: one sentence, and the evidence."""
        return decode(Why, self._wire.ask("GET", "/api/jobs/{id}/why", at={"id": id}))
