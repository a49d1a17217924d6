"""What an embedding server answered: its vectors, checked, or the error that its refusal is for a job.

`vectors` takes the rows by their `index`, not by their order. A vector of another length is `Permanent`, because the server
will not change its mind; an answer that is incomplete or no JSON is `Transient`, because servers and proxies break off.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from penstock.errors import JobFailure, Permanent, RateLimited, Transient, Unavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LONGEST_REST = 3600.0  # seconds; who asks for more is asked again all the same


def vectors(name: str, content: bytes, count: int, dimensions: int) -> "NDArray[np.float32]":
    """Rows of length 1 in the order of the texts."""
    import numpy as np

    rows = np.zeros((count, dimensions), dtype=np.float64)
    seen: set[int] = set()
    for index, values in _entries(name, content):
        if not 0 <= index < count or index in seen:
            raise Transient(f"The model {name} answered twice for one text, or for a text that was not sent.")
        seen.add(index)
        if len(values) != dimensions:
            raise Permanent(
                f"The model {name} gives vectors of {len(values)} dimensions, but models.{name}.dimensions is "
                f"{dimensions}. Correct the setting, or the model behind the address."
            )
        try:
            rows[index] = values
        except (ValueError, TypeError, OverflowError):
            raise Transient(f"The model {name} gave a vector with something in it that is no number.") from None
    if len(seen) < count:
        raise Transient(f"The model {name} gave {len(seen)} vectors for {count} texts.")
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise Transient(f"The model {name} gave a vector with something in it that is no number.")
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _entries(name: str, content: bytes) -> Iterator[tuple[int, list[Any]]]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise Transient(f"The model {name} answered with something that is no JSON, or broke off.") from None
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        raise Transient(f"The model {name} answered without vectors.")
    for entry in entries:
        index, values = (entry.get("index"), entry.get("embedding")) if isinstance(entry, dict) else (None, None)
        if type(index) is not int or not isinstance(values, list):
            raise Transient(f"The model {name} answered with an entry that has no index or no vector.")
        yield index, values


def failure(name: str, status: int, retry_after: str | None, content: bytes, secret: str) -> JobFailure:
    """What a refusal means for the job; the key is in none of the sentences."""
    if status in (401, 403):  # without the server's words, which like to quote the key
        what = "refuses the key" if secret else "wants a key"
        return Permanent(f"The model {name} {what} ({status}). Set models.{name}.key to one that it takes.")
    said = _said(content, secret)
    rest = seconds(retry_after)
    if status == 429 or (status == 503 and rest is not None):
        return RateLimited(f"The model {name} asks for patience ({status}){said}", retry_after=rest)
    if status >= 500:
        return Unavailable(f"The model {name} failed ({status}){said}")
    if status in (408, 425):
        return Transient(f"The model {name} failed ({status}){said}")
    return Permanent(f"The model {name} does not take the request ({status}){said}{_advice(name, status)}")


def _advice(name: str, status: int) -> str:
    if 300 <= status < 400:
        return f" It has moved: set models.{name}.url to where it is now."
    if status == 404:
        return f" Check models.{name}.url and models.{name}.model."
    return f" Lower models.{name}.batch or models.{name}.batch_characters." if status == 413 else ""


def seconds(retry_after: str | None) -> float | None:
    """A Retry-After in either of its forms: seconds or a date; None when it is neither."""
    if not retry_after:
        return None
    try:
        rest = float(retry_after)
    except ValueError:
        try:
            moment = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        rest = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(rest, 0.0), LONGEST_REST) if rest == rest else None  # noqa: PLR0124  NaN is not itself


def _said(content: bytes, secret: str) -> str:
    """The server's own sentence, short, on one line, and without the key."""
    try:
        answer = json.loads(content)
        error = answer.get("error", answer)
        said = error.get("message", "") if isinstance(error, dict) else error
    except (ValueError, RecursionError, AttributeError):
        said = ""
    if not isinstance(said, str) or not said.strip():
        return "."
    if secret:
        said = said.replace(secret, "***")
    words = " ".join("".join(sign if sign.isprintable() else " " for sign in said).split())
    return f": {words[:200].rstrip('.')}."
