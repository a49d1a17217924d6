"""Whatever a request may be: an answer below 500, as a problem when it is an error. A walk over every route there is."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from penstock.errors import (
    BadValue,
    DatabaseTrouble,
    KeyInFlight,
    NameTaken,
    PoolExhausted,
    QueueFull,
    Refused,
    StorageFull,
)
from penstock.product import Product
from penstock.settings import DatabaseUrl
from penstock.web import make_app
from penstock.web.middleware.errors import describe, refuse
from tests.postgres_proxy import PostgresProxy
from tests.web.api_server import serving
from tests.web.conftest import Answer, Api

NASTY = [
    "0", "-1", "1", "1.5", "x", "", "9" * 40, str(2**63), str(2**31), "1e999", "null", "true", "NaN", "[]", "%7B%7D",
    "%00", "%FF", "%ED%A0%80", "%EF%BF%BF", "%F0%9F%99%82", "%E2%80%AE", "%0D%0AX%3A+y", "%25", "%5C", "x" * 5000,
    "..", "%2E%2E%2F", "%2F", "a%2Fb", "%27%3B+drop+table+penstock.documents%3B--", "%7B%22a%22%3A%22%5Cu0000%22%7D",
    "0001-01-01T00:00:00", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00%2B23:59", "9999-12-31T23:59:59-23:59",
]  # fmt: skip
BODIES: list[dict[str, Any]] = [
    {},
    {"json": {}},
    {"json": []},
    {"json": {"name": "\ud800"}},
    {"json": {"name": {"a": [1]}, "chunk_size": 1e300}},
    {"data": b"{", "headers": {"Content-Type": "application/json"}},
    {"data": b"\xff", "headers": {"Content-Type": "application/json; charset=utf-16"}},
    {"data": b"x", "headers": {"Content-Type": "multipart/form-data; boundary=x"}},
    {"data": b"x", "headers": {"Content-Type": "\xe9"}},
    {"headers": {"Idempotency-Key": "x" * 5000, "Range": "bytes=x", "X-Penstock-Metadata": "\xff"}},
]


def check(answer: Answer, request: str) -> None:
    assert answer.status < 500, f"{request}: {answer.status} {answer.body[:300]!r}"
    if answer.status >= 400:
        assert answer.headers["Content-Type"] == "application/problem+json", request
        assert answer.json["status"] == answer.status, request
        assert {"type", "title", "detail"} <= answer.json.keys(), request
        assert answer.json["detail"], request


async def test_an_unknown_parameter_is_refused_by_every_route(api: Api) -> None:
    """Also with the nearest name, before anything is looked for or changed."""
    document = (await api.get("/api/openapi.json")).json
    asked = 0
    for path, operations in document["paths"].items():
        if not path.startswith("/api/"):
            continue
        address = re.sub(r"\{[^}]+\}", "1", path)
        for method, operation in operations.items():
            answer = await api.ask(method.upper(), f"{address}?xyzzy=1")
            assert answer.status == 422, f"{method} {path}: {answer.status} {answer.body!r}"
            assert answer.json["detail"].startswith("Unknown parameter `xyzzy`: this route has "), answer.json
            asked += 1
            for each in operation.get("parameters", ()):
                if each["in"] == "query" and len(each["name"]) > 2:
                    said = await api.ask(method.upper(), f"{address}?{each['name'][:-1]}=1")
                    assert (
                        said.json["detail"]
                        == f"Unknown parameter `{each['name'][:-1]}`: did you mean `{each['name']}`?"
                    )
    assert asked > 60
    assert (await api.get("/api/documents?colection=mill")).json["type"] == "urn:penstock:bad-value"
    assert (await api.get("/health/live?probe=1")).status == 200


# The routes shall answer, not the rate limits.
UNLIMITED = {f"rates__{name}": "off" for name in ("search", "read", "write", "per_address")}


@pytest.mark.slow
@pytest.mark.parametrize("setting_overrides", [UNLIMITED])
async def test_a_walk_over_every_route(api: Api) -> None:
    """Each parameter of each route gets each nasty value; each route gets each nasty body."""
    await api.make("mill")
    await api.put("a.txt")
    paths = (await api.get("/api/openapi.json")).json["paths"]
    asked = 0
    for path, methods in paths.items():
        if path in {
            "/api/events",
            "/health/ready",
        }:  # without an end; without a worker not ready: they have their own tests
            continue
        for method, operation in methods.items():
            for url, options in requests(path, operation):
                answer = await api.ask(method.upper(), url, **options)
                check(answer, f"{method} {url[:200]} {options}")
                assert answer.status != 429
                asked += 1
    assert asked > 1000
    assert (await api.get("/api/status")).status == 200


def requests(path: str, operation: dict[str, Any]) -> Any:
    """Addresses with one nasty part each, then the plain address with nasty bodies."""
    parameters = operation.get("parameters", [])
    usual = {each["name"]: USUAL.get(each["name"], "1") for each in parameters if each["in"] == "path"}
    needed = {each["name"]: "a" for each in parameters if each["in"] == "query" and each.get("required")}
    for each, value in itertools.product(parameters, NASTY):
        if each["in"] == "path":
            yield fill(path, usual | {each["name"]: value}, needed), {}
        elif each["in"] == "query":
            yield fill(path, usual, needed | {each["name"]: value}), {}
    for body in BODIES:
        yield fill(path, usual, needed), body


USUAL = {"collection": "mill", "name": "new.txt"}


def fill(path: str, parts: dict[str, str], query: dict[str, str]) -> str:
    for name, value in parts.items():
        path = path.replace(f"{{{name}}}", value)
    return path + "?" + "&".join(f"{name}={value}" for name, value in query.items())


async def test_unknown_addresses(api: Api) -> None:
    for path in ("/nothing", "/api", "/api/documents/1/nothing", "/redoc", "/%F0%9F%99%82", "/api//"):
        answer = await api.get(path)
        assert answer.status == 404, path
        check(answer, path)


async def test_wrong_methods(api: Api) -> None:
    answer = await api.ask("PATCH", "/api/search")
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET"
    check(answer, "PATCH")
    check(await api.ask("BREW", "/api/search"), "BREW")


async def test_the_openapi_document_names_problems_and_nothing_else(api: Api) -> None:
    document = (await api.get("/api/openapi.json")).json
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if path.startswith("/api/"):
                assert "application/problem+json" in operation["responses"]["4XX"]["content"], (method, path)
                assert "422" not in operation["responses"], (method, path)
    assert "HTTPValidationError" not in document["components"]["schemas"]
    assert {"put", "get"} <= document["paths"]["/api/collections/{collection}/documents/{name}"].keys()


async def test_a_database_that_is_away(database_url: DatabaseUrl, tmp_path: Path) -> None:
    """503 with a time to come again, and no word about hosts or users."""
    setting_overrides = {"home": str(tmp_path), "pool__size": 2, "pool__call_timeout": "0.5s"}
    async with (
        PostgresProxy(database_url) as proxy,
        Product(role="test", database_url=proxy.url.reveal(), **setting_overrides) as product,
        serving(make_app(product)) as port,
        aiohttp.ClientSession() as client,
    ):
        api = Api(client, port, product)
        await api.make("mill")
        with proxy.refusing():
            for answer in (await api.get("/api/documents"), await api.put("a.txt")):
                assert answer.status == 503
                assert answer.headers["Content-Type"] == "application/problem+json"
                assert int(answer.headers["Retry-After"]) >= 1
                assert "127.0.0.1" not in answer.json["detail"]
            assert (await api.get("/health/ready")).status == 503
            assert (await api.get("/metrics")).status == 200
        assert (await api.put("a.txt")).status == 202


async def test_what_nobody_expected(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.product, "app", None)
    answer = await api.get("/api/documents")
    assert answer.status == 500
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert "NoneType" not in answer.body.decode()


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (NameTaken("taken", existing=7), 409, "name-taken"),
        (QueueFull("full", retry_after=7), 429, "queue-full"),
        (StorageFull("full"), 507, "storage-full"),
        (KeyInFlight("wait"), 409, "key-in-flight"),
        (PoolExhausted("busy"), 503, "pool-exhausted"),
    ],
)
def test_our_own_errors(error: Refused | QueueFull | DatabaseTrouble, status: int, kind: str) -> None:
    problem = describe(error)
    assert (problem.status, problem.type) == (status, f"urn:penstock:{kind}")
    answer = refuse(error)
    assert answer.status_code == status
    assert json.loads(bytes(answer.body))["detail"] == str(error)
    if isinstance(error, QueueFull):
        assert answer.headers["Retry-After"] == "7"


def test_a_detail_that_cannot_be_sent_is_mended() -> None:
    """Half of a character, which JSON may carry in, is no reason for a 500."""
    assert json.loads(bytes(refuse(BadValue("no \ud800")).body))["detail"] == "no ?"
