"""Every error as application/problem+json (RFC 9457): a status for programs, a sentence for people.

What Penstock refuses on purpose carries its own status and sentence. What the web framework finds (unknown paths, wrong
parameters) is put into the same form. Anything else is a 500 without details; its traceback is logged.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from penstock.errors import (
    BadJob,
    BadKey,
    CannotStart,
    DatabaseTrouble,
    JobFailure,
    KeyInFlight,
    NameTaken,
    PenstockError,
    RateLimited,
    Refused,
)
from penstock.telemetry import log, mask
from penstock.text import storable

MEDIA_TYPE = "application/problem+json"
SOON = "2"  # seconds until a database that was away may be asked again


class Fault(BaseModel):
    """One parameter or field that cannot be used."""

    where: str = Field(description="Such as query.limit or body.name.")
    message: str


class Problem(BaseModel):
    """The reason why a request was refused."""

    type: str = Field(description="A name of the error for programs; about:blank where the status suffices.")
    title: str
    status: int
    detail: str = Field(description="What is wrong, and what to do.")
    existing: int | None = Field(None, description="409: the document or collection that has the name.")
    errors: list[Fault] | None = Field(None, description="422: each parameter that cannot be used.")


def _documented(description: str) -> dict[str, Any]:
    schema = Problem.model_json_schema()
    fault = schema.pop("$defs")["Fault"]  # written out: a reference would be resolved at the document's root
    schema["properties"]["errors"]["anyOf"][0]["items"] = fault
    return {"description": description, "content": {MEDIA_TYPE: {"schema": schema}}}


# For the OpenAPI document: all routes answer errors alike.
RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": _documented("Refused, with the reason"),
    "5XX": _documented("Not possible just now"),
}


def describe(error: PenstockError) -> Problem:
    """The problem behind one of our own errors."""
    # A narrower class of another module is the same problem to a caller.
    name = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == PenstockError.__module__)
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()
    return Problem(
        type=f"urn:penstock:{words.replace(' ', '-')}",
        title=words.capitalize(),
        status=_status(error),
        detail=printable(str(error)),
        existing=error.existing if isinstance(error, NameTaken) else None,
    )


def _status(error: PenstockError) -> int:
    match error:
        case Refused():
            return error.status
        case RateLimited():
            return 429
        case BadJob():
            return 422
    return 503


def answer(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The response; empty fields are left out."""
    return JSONResponse(
        problem.model_dump(exclude_none=True),
        status_code=problem.status,
        headers=dict(headers or {}),
        media_type=MEDIA_TYPE,
    )


def plain(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """A problem that its status describes."""
    title = HTTPStatus(status).phrase
    return answer(Problem(type="about:blank", title=title, status=status, detail=printable(detail)), headers)


def printable(text: str) -> str:
    """Text without secrets, and without a lone half of a character, which a request may contain and no answer can."""
    return storable(mask(text), "\0")


def refuse(error: PenstockError) -> JSONResponse:
    """The response to one of our own errors, with the headers that belong to it."""
    headers = {}
    if isinstance(error, RateLimited):
        headers["Retry-After"] = str(max(1, round(error.retry_after.total_seconds())))
    elif isinstance(error, KeyInFlight):
        headers["Retry-After"] = "1"
    elif isinstance(error, BadKey):
        headers["WWW-Authenticate"] = "Bearer"
    return answer(describe(error), headers)


# -- handlers -----------------------------------------------------------------------------------------------------


def handle_problems(app: FastAPI) -> None:
    """Let the application answer all errors in this form."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RateLimited, _refused)
    app.add_exception_handler(BadJob, _refused)
    app.add_exception_handler(JobFailure, _refused)  # a model or a bucket that a request needs is away
    app.add_exception_handler(DatabaseTrouble, _database_away)
    app.add_exception_handler(CannotStart, _database_away)
    app.add_exception_handler(TimeoutError, _late)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unexpected)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, PenstockError)  # noqa: S101  registered for nothing else
    return refuse(error)


def database_away(path: str, error: Exception) -> Response:
    """The details are for the log: they name hosts and users."""
    log.warning("a request met a database in trouble", path=path, error=str(error))
    detail = "The database does not answer just now. Try again in a few seconds; if it lasts, see /health/ready."
    return plain(503, detail, {"Retry-After": SOON})


async def _database_away(request: Request, error: Exception) -> Response:
    return database_away(request.url.path, error)


async def _late(request: Request, error: Exception) -> Response:
    log.warning("a request waited in vain", path=request.url.path, error=str(error))
    return plain(
        503,
        str(error) or "A service that this request needs did not answer in time: retry later.",
        {"Retry-After": SOON},
    )


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    detail = str(error.detail)
    if error.status_code == 404 and detail == "Not Found":
        detail = f"{request.url.path} does not exist. /docs lists all routes."
    elif error.status_code == 405:
        detail = f"{request.method} is not possible at {request.url.path}."
    return plain(error.status_code, detail, error.headers)


async def _invalid(_request: Request, error: Exception) -> Response:
    """A path that cannot be an address is 404, the rest is 422."""
    assert isinstance(error, RequestValidationError)  # noqa: S101
    faults = [
        Fault(where=printable(".".join(str(part) for part in one["loc"])), message=printable(str(one["msg"])))
        for one in error.errors()
    ]
    if any(one["loc"][:1] == ("path",) for one in error.errors()):
        return plain(404, f"This address does not exist: {faults[0].message} ({faults[0].where}).")
    detail = "; ".join(f"{fault.where}: {fault.message}" for fault in faults)
    problem = Problem(type="urn:penstock:bad-value", title="Bad value", status=422, detail=f"{detail}.", errors=faults)
    return answer(problem)


async def _gone(_request: Request, _error: Exception) -> Response:
    """The client has left."""
    return Response(status_code=400)


async def _unexpected(_request: Request, _error: Exception) -> Response:
    """uvicorn logs the traceback."""
    return plain(500, "Internal error: the log of the API has the details.")
