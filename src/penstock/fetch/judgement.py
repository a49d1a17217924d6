"""What an answer or a failure means: FetchRefused for what stays so, FetchFailed for what may pass.

A server that asks for patience (429, 503 with Retry-After) is a FetchFailed with `retry_after`, not a RateLimited: those are
not charged to the job, and a stranger's server must not keep a job alive for ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import aiohttp

from penstock.errors import FetchFailed, FetchRefused
from penstock.fetch.target import Target
from penstock.settings.values import format_size

PASSING = {408, 425, 429}
LONGEST_WAIT = timedelta(hours=1)


def judge(answer: aiohttp.ClientResponse, target: Target, most: int) -> None:
    """Nothing for an answer whose body can be read; else the error."""
    if answer.status != HTTPStatus.OK:
        sentence = f"{target.shown} answered {answer.status}{_phrase(answer.status)}."
        if answer.status in PASSING or answer.status >= 500:
            raise FetchFailed(sentence, retry_after=retry_after(answer.headers.get("Retry-After", "")))
        raise FetchRefused(f"{sentence} Correct the URL, or ask whoever runs that server.", answered=answer.status)
    encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise FetchRefused(f"{target.shown} sends its answer compressed, though it was asked not to.")
    if answer.content_length is not None and answer.content_length > most:
        raise too_large(target, most)


def too_large(target: Target, most: int) -> FetchRefused:
    """The same for what is declared and for what is counted."""
    return FetchRefused(f"{target.shown} has more than {format_size(most)}, the most that is taken (limits.bytes).")


def retry_after(header: str) -> timedelta | None:
    """Seconds or a date, at most an hour; None for anything else."""
    try:
        if header.strip().isdecimal():
            wait = timedelta(seconds=min(int(header), LONGEST_WAIT.total_seconds()))
        else:
            moment = parsedate_to_datetime(header)
            wait = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime.now(UTC)
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(wait, timedelta(0)), LONGEST_WAIT)


@contextmanager
def told(target: Target) -> Iterator[None]:
    """Errors of the client library in our words."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise FetchRefused(f"The certificate of {target.host} is not valid for it, or not trusted.") from error
    except TimeoutError as error:
        raise FetchFailed(f"{target.shown} took too long.") from error
    except (aiohttp.ClientError, OSError) as error:
        raise FetchFailed(f"{target.shown} cannot be read: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    match error:
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError():
            return "the connection ended too early"
        case aiohttp.ClientConnectorError():  # its own text has the address that was tried
            return "there is no connection to the server"
        case aiohttp.ClientResponseError():
            return "the server does not speak HTTP as it should"
        case _:
            return "the connection broke"


def _phrase(status: int) -> str:
    try:
        return f" ({HTTPStatus(status).phrase})"
    except ValueError:
        return ""
