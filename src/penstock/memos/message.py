"""A message of a conversation, as it comes: what it may be called, and how long it may be.

What cannot be kept is refused with a sentence, `BadValue`, whether it comes by HTTP or from a source.
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from penstock.errors import BadValue

NAME_MAX = 200  # bytes of a stream's name
ID_MAX = 1_000  # bytes of a message's number at its sender
AUTHOR_MAX = 200  # bytes
TEXT_MAX = 100_000  # bytes
MESSAGES_MAX = 1_000  # in one request


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody has said."""

    message_id: str  # the sender's: the same one again is the same message
    text: str
    author: str = ""
    at: datetime | None = None  # with a time zone


def check_stream_name(text: str) -> str:
    """The name as it is kept: printable, without slashes, for it is part of addresses."""
    name = unicodedata.normalize("NFC", text).strip()
    if not name or not name.isprintable() or "/" in name or "\\" in name or name in {".", ".."}:
        raise BadValue(f"A stream cannot be called {name[:60]!r}: use printable characters, and no slashes.")
    _bounded("The name of the stream", name, NAME_MAX)
    return name


def check_message(message: Message) -> Message:
    """The message itself, if it can be kept."""
    if not message.message_id:
        raise BadValue("A message needs a message_id: the number that its sender gives it, by which it is known again.")
    if not message.text.strip():
        raise BadValue(f"The message {message.message_id[:100]!r} has no text: leave it out.")
    _bounded("The message_id", message.message_id, ID_MAX)
    _bounded("The author", message.author, AUTHOR_MAX)
    _bounded(f"The text of the message {message.message_id[:100]!r}", message.text, TEXT_MAX)
    return message


def _bounded(what: str, text: str, most: int) -> None:
    if "\0" in text:
        raise BadValue(f"{what} has a NUL in it, which cannot be kept: remove it.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadValue(f"{what} has half of a character in it: send it as UTF-8.") from None
    if size > most:
        raise BadValue(f"{what} takes {size:,} bytes, more than {most:,}: shorten it.")


def read_payload(payload: Mapping[str, Any], message_id: str, source: str) -> tuple[str, Message]:
    """The stream and the message that a source has brought: `text`, and if it likes `stream`, `author` and `at`."""
    stream, text, author, at = (payload.get(key) for key in ("stream", "text", "author", "at"))
    if not isinstance(text, str):
        raise BadValue("The message has no text: give it as `text`.")
    for key, value in (("stream", stream), ("author", author)):
        if value is not None and not isinstance(value, str | int):
            raise BadValue(f"The {key} of the message is not a text.")
    message = Message(message_id, text, "" if author is None else str(author), _time(at))
    return check_stream_name(str(stream) if stream not in (None, "") else source), check_message(message)


def _time(value: object) -> datetime | None:
    """ISO 8601, UTC where it does not say otherwise."""
    if value in (None, ""):
        return None
    try:
        found = datetime.fromisoformat(str(value))
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadValue(
            f"The time {str(value)[:50]!r} of the message cannot be read: write 2026-11-17T18:00:00Z."
        ) from None
