"""`/api/keys`, and what a key means for a request: whose name it gives, when it ends, when it is heard in an upload."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from penstock.product import Product
from tests.web.api_server import raw
from tests.web.two_tenants import SETTING_OVERRIDES, TwoTenants, move_clock, staged
from tests.web.two_tenants import until as becomes


@pytest.fixture
def setting_overrides() -> dict[str, Any]:
    return dict(SETTING_OVERRIDES)


@pytest.fixture
async def two_tenants(product: Product) -> AsyncIterator[TwoTenants]:
    async with staged(product) as made:
        yield made


async def test_a_key_s_life(two_tenants: TwoTenants) -> None:
    made = await two_tenants.ask(
        "rival", "POST", "/api/keys", json={"name": "ann", "scopes": ["read"], "collections": ["porch"]}
    )
    assert made.status == 201, made.body
    key, number = made.json["key"], made.json["id"]
    assert (made.json["created_by"], made.json["collections"], made.json["used_at"]) == ("rival", ["porch"], None)
    assert (await two_tenants.ask(key, "GET", "/api/collections/porch")).status == 200
    listed = await two_tenants.ask("rival", "GET", "/api/keys?limit=1000")
    assert key[12:] not in listed.body.decode(), "it is not shown again"
    assert [each["name"] for each in listed.json["items"]] == ["rival", "rival porch", "ann"]
    assert listed.json["items"][2]["used_at"] is not None
    ended = await two_tenants.ask("rival", "DELETE", f"/api/keys/{number}")
    assert (ended.status, ended.json["usable"]) == (200, False)

    async def refused() -> bool:
        return (await two_tenants.ask(key, "GET", "/api/collections/porch")).status == 401

    await becomes(refused, within=2)
    assert (await two_tenants.ask("rival", "DELETE", f"/api/keys/{number}")).json["revoked_at"] == ended.json[
        "revoked_at"
    ]


async def test_an_end_by_the_database_s_clock(two_tenants: TwoTenants, product: Product) -> None:
    made = await two_tenants.ask("owner", "POST", "/api/keys", json={"name": "ann", "expires_in": 3600})
    key = made.json["key"]
    assert (await two_tenants.ask(key, "GET", "/api/collections")).status == 200
    await move_clock(product, timedelta(hours=1))

    async def refused() -> bool:
        answer = await two_tenants.ask(key, "GET", "/api/collections")
        return answer.status == 401 and "expired" in answer.json["detail"]

    await becomes(refused, within=2)
    [listed] = [
        each for each in (await two_tenants.ask("owner", "GET", "/api/keys")).json["items"] if each["name"] == "ann"
    ]
    assert (listed["usable"], listed["revoked_at"]) == (False, None)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["root"]},
        {"name": "x", "collections": []},
        {"name": "x", "expires_in": 0},
        {"name": "x", "expires_in": 1e12},
        {"name": "x", "tenant": "mill"},  # it is the asking key's, always
        {"name": "x", "scopes": ["admin"], "collections": ["porch"]},
    ],
)
async def test_keys_that_cannot_be_made(two_tenants: TwoTenants, body: dict[str, Any]) -> None:
    answer = await two_tenants.ask("rival", "POST", "/api/keys", json=body)
    assert answer.status == 422, answer.body
    assert answer.headers["Content-Type"] == "application/problem+json"


async def test_a_name_is_what_was_meant(two_tenants: TwoTenants) -> None:
    """Numbers that no key has, or that only look like a prefix."""
    for which in ("0", "-1", "2147483648", "99", "1.5", "x", two_tenants.keys["rival"][3:11]):
        assert (await two_tenants.ask("rival", "DELETE", f"/api/keys/{which}")).status == 404, which


async def test_uploaded_by_is_the_key_s_name(two_tenants: TwoTenants) -> None:
    path = "/api/collections/porch/documents"
    made = await two_tenants.ask("rival", "PUT", f"{path}/a.txt", data=b"a")
    shown = (await two_tenants.ask("rival", "GET", made.headers["Location"])).json
    assert shown["uploaded_by"] == "rival"
    same = await two_tenants.ask("rival", "PUT", f"{path}/b.txt?uploaded_by=rival", data=b"b")
    assert same.status == 202
    forged = await two_tenants.ask("rival", "PUT", f"{path}/c.txt?uploaded_by=ann", data=b"c")
    assert (forged.status, forged.json["type"]) == (422, "urn:penstock:bad-value")
    deleted = await two_tenants.ask("rival", "DELETE", made.headers["Location"])
    assert deleted.status == 202
    history = (await two_tenants.ask("rival", "GET", f"{made.headers['Location']}/history")).json
    assert [each["details"].get("by") for each in history if each["event"] == "accepted"] == ["rival"]


async def test_a_refusal_in_the_middle_of_a_large_upload(two_tenants: TwoTenants) -> None:
    """The client hears it, although it is not done sending."""
    size = 200_000_000
    head = (
        f"PUT /api/collections/porch/documents/big.bin HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n"
        f"Authorization: Bearer pk_aaaaaaaa_{'A' * 43}\r\n\r\n"
    ).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", two_tenants.api.port)
    writer.write(head)
    heard = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
    sent = 0
    async with asyncio.timeout(10):
        while not heard.done():
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536
    assert (await heard).startswith(b"HTTP/1.1 401"), "it was told while it sent"
    assert sent < size
    writer.close()
    assert two_tenants.api.blobs() == []


async def test_a_key_s_text_is_in_no_answer(two_tenants: TwoTenants) -> None:
    key = two_tenants.keys["rival"]
    for path in (f"/api/{key}", f"/api/search?q={key}", f"/api/collections/{key}", f"/api/documents?collection={key}"):
        answer = await two_tenants.ask("rival", "GET", path)
        assert key[12:] not in answer.body.decode(), path


async def test_two_headers(two_tenants: TwoTenants) -> None:
    """Only the first counts; a good second one does not help a bad first."""
    good, bad = two_tenants.keys["rival"], "pk_aaaaaaaa_" + "A" * 43
    lines = "GET /api/documents HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    for first, second in ((bad, good), ("", good)):
        told = await raw(
            two_tenants.api.port,
            f"{lines}Authorization: Bearer {first}\r\nAuthorization: Bearer {second}\r\n\r\n".encode(),
        )
        assert told.startswith(b"HTTP/1.1 401")
