"""Server-sent events: lines to the names of events. Nothing here waits."""


class EventLines:
    """Feed it line by line; it tells when an event is complete, and keeps when the server wants us back."""

    def __init__(self) -> None:
        self.retry = 2.0  # seconds
        self.clear()

    def clear(self) -> None:
        """Forget an event that will not be completed."""
        self._name = "message"
        self._begun = False

    def feed(self, line: str) -> str | None:
        """The name of the event that this line completes."""
        if not line:
            name, begun = self._name, self._begun
            self.clear()
            return name if begun else None
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "retry" and value.isdecimal():
            self.retry = int(value) / 1000
        if field in {"event", "data"}:  # all else, above all a comment, is to keep the connection alive
            self._begun = True
        return None
