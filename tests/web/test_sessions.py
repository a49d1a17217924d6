"""Signing in with a key: a cookie that no other site can use, and that is as good as its key."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from penstock.access.tokens import SESSION_COOKIE, SESSION_LIFETIME
from penstock.product import Product
from tests.web.conftest import Answer
from tests.web.two_tenants import SETTING_OVERRIDES, TwoTenants, move_clock, reopened, staged, until


@pytest.fixture
def setting_overrides() -> dict[str, Any]:
    return dict(SETTING_OVERRIDES)


@pytest.fixture
async def two_tenants(product: Product) -> AsyncIterator[TwoTenants]:
    async with staged(product) as made:
        yield made


async def sign_in(two_tenants: TwoTenants, label: str = "rival", **headers: str) -> Answer:
    return await two_tenants.ask(None, "POST", "/api/session", json={"key": two_tenants.keys[label]}, headers=headers)


def cookie_of(answer: Answer) -> str:
    return answer.headers["Set-Cookie"].partition("=")[2].partition(";")[0]


async def ask(
    two_tenants: TwoTenants, cookie: str, method: str = "GET", path: str = "/api/keys", **headers: str
) -> int:
    told = await two_tenants.ask(None, method, path, headers={"Cookie": f"{SESSION_COOKIE}={cookie}"} | headers)
    return told.status


async def test_signing_in(two_tenants: TwoTenants) -> None:
    answer = await sign_in(two_tenants)
    assert (answer.status, answer.json) == (200, {"name": "rival", "tenant": "rival", "scopes": ["admin"]})
    said = answer.headers["Set-Cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/"} <= {each.strip() for each in said.split(";")}
    assert f"max-age={int(SESSION_LIFETIME.total_seconds())}" in said
    cookie = cookie_of(answer)
    assert two_tenants.keys["rival"][12:] not in cookie
    assert two_tenants.keys["rival"][3:11] not in cookie
    assert await ask(two_tenants, cookie) == 200
    told = await two_tenants.ask(None, "GET", "/api/collections", headers={"Cookie": f"{SESSION_COOKIE}={cookie}"})
    assert [each["name"] for each in told.json["items"]] == ["porch"]
    assert not two_tenants.leaks(told)


@pytest.mark.parametrize("key", ["", "pk_x", "pk_aaaaaaaa_" + "A" * 43, "x" * 201])
async def test_signing_in_with_no_key(two_tenants: TwoTenants, key: str) -> None:
    answer = await two_tenants.ask(None, "POST", "/api/session", json={"key": key})
    assert answer.status == (422 if len(key) > 200 else 401)
    assert "Set-Cookie" not in answer.headers


async def test_pages_of_other_sites(two_tenants: TwoTenants) -> None:
    """A cookie that came along all the same is of no use to them."""
    cookie, own = cookie_of(await sign_in(two_tenants)), f"http://127.0.0.1:{two_tenants.api.port}"
    path = "/api/collections"
    assert await ask(two_tenants, cookie, "POST", path, Origin=own) == 422, "without a body, it came as far as that"
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "", "http://[::1", f"{own}.evil.example"):
        assert await ask(two_tenants, cookie, "POST", path, Origin=origin) == 403, origin
        assert await ask(two_tenants, cookie, "DELETE", "/api/collections/porch", Origin=origin) == 403, origin
        assert (await sign_in(two_tenants, Origin=origin)).status == 403, origin
    for site in ("cross-site", "same-site"):
        assert await ask(two_tenants, cookie, "POST", path, **{"Sec-Fetch-Site": site}) == 403, site
        assert (await sign_in(two_tenants, **{"Sec-Fetch-Site": site})).status == 403, site
    assert await ask(two_tenants, cookie, "POST", path, **{"Sec-Fetch-Site": "same-origin"}) == 422


async def test_cookies_that_are_none(two_tenants: TwoTenants) -> None:
    cookie = cookie_of(await sign_in(two_tenants))
    version, signer, number, moment, signature = cookie.split(".")
    other = "B" if signature[5] != "B" else "C"
    wrong = [
        "",
        "x",
        f"{version}.{signer}.{int(number) - 1}.{moment}.{signature}",  # another key: the owner's
        f"{version}.{signer}.{number}.{int(moment) + 1}.{signature}",
        f"{version}.{signer}.{number}.{moment}.{signature[:5]}{other}{signature[6:]}",
        f"{version}.00000000.{number}.{moment}.{signature}",
        f"v2.{signer}.{number}.{moment}.{signature}",
        f"{cookie}.x",
        two_tenants.keys["rival"],
    ]
    for each in wrong:
        assert await ask(two_tenants, each) == 401, each


async def test_a_link_is_no_session(two_tenants: TwoTenants) -> None:
    """Both are signed with the same secrets."""
    put = await two_tenants.ask("rival", "PUT", "/api/collections/porch/documents/a.txt", data=b"a")
    link = (await two_tenants.ask("rival", "POST", f"{put.headers['Location']}/link")).json["url"].partition("link=")[2]
    assert await ask(two_tenants, link) == 401
    cookie = cookie_of(await sign_in(two_tenants))
    assert (await two_tenants.ask(None, "GET", f"{put.headers['Location']}/content?link={cookie}")).status == 404


async def test_a_session_ends_with_its_key(two_tenants: TwoTenants) -> None:
    cookie = cookie_of(await sign_in(two_tenants))
    assert await ask(two_tenants, cookie) == 200
    listed = (await two_tenants.ask("rival", "GET", "/api/keys")).json["items"]
    [number] = [each["id"] for each in listed if each["name"] == "rival"]
    assert await ask(two_tenants, cookie, "DELETE", f"/api/keys/{number}") == 200

    async def over() -> bool:
        return await ask(two_tenants, cookie) == 401

    await until(over, within=2)


async def test_a_session_ends_after_its_time(two_tenants: TwoTenants, product: Product) -> None:
    cookie = cookie_of(await sign_in(two_tenants))
    await move_clock(product, SESSION_LIFETIME - timedelta(minutes=1))
    async with reopened(product) as later:  # a process counts on from what the database said: another one has to look
        assert await ask(later, cookie) == 200
    await move_clock(product, timedelta(minutes=1))
    async with reopened(product) as later:
        assert await ask(later, cookie) == 401


async def test_signing_out(two_tenants: TwoTenants) -> None:
    answer = await two_tenants.ask(None, "DELETE", "/api/session")
    assert answer.status == 204
    assert answer.headers["Set-Cookie"].startswith(f'{SESSION_COOKIE}=""')
    assert (
        await two_tenants.ask(None, "DELETE", "/api/session", headers={"Origin": "https://evil.example"})
    ).status == 403
