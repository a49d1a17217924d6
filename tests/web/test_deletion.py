"""Deleting by a filter, restoring, receipts: by HTTP."""

from typing import Any

import pytest

from penstock.documents import remove_deleted
from tests.web.conftest import Api


async def remove(api: Api) -> int:
    return await remove_deleted(api.product.app.database, api.product.store, rest=0)


async def delete(api: Api, **body: Any) -> Any:
    return await api.ask("POST", "/api/documents/delete", json=body)


async def test_a_filter_deletes_in_parts(api: Api) -> None:
    await api.make()
    for number in range(3):
        assert (await api.put(f"old/{number}.txt", b"%d" % number)).status == 202
    await api.put("new.txt")
    answer = await delete(api, collection="mill", name_glob="old/*", limit=2, reason="a clean-up", now=True)
    assert (answer.status, answer.json) == (202, {"deleted": 2, "more": True, "restorable_until": None})
    rest = (await delete(api, collection="mill", name_glob="old/*", now=True)).json
    assert (rest["deleted"], rest["more"]) == (1, False)
    assert await api.names() == ["new.txt"]
    assert await remove(api) == 3
    page = (await api.get("/api/receipts?limit=2")).json
    assert [each["name"] for each in page["items"]] == ["old/0.txt", "old/1.txt"]
    assert page["items"][0]["reason"] == "a clean-up"
    rest = (await api.get(f"/api/receipts?after={page['next']}")).json
    assert ([each["name"] for each in rest["items"]], rest["next"]) == (["old/2.txt"], None)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"collection": "mill"}, 422, "name a condition"),
        ({}, 422, "collection"),
        ({"collection": "mill", "colour": "red"}, 422, "colour"),
        ({"collection": "mill", "status": "gone"}, 422, "status"),
        ({"collection": "mill", "status": "deleted"}, 422, "cannot be deleted"),
        ({"collection": "mill", "since": "0001-01-01T00:00:00+14:00"}, 422, "UTC"),
        ({"collection": "mill", "metadata": {"a": "\0"}}, 422, "NUL"),
        ({"collection": "other", "all": True}, 404, "Collection other does not exist"),
    ],
)
async def test_what_cannot_be_meant_is_refused(api: Api, body: dict[str, Any], status: int, said: str) -> None:
    await api.make()
    await api.put("a.txt")
    answer = await delete(api, **body)
    assert answer.status == status
    assert said in answer.body.decode()
    assert await api.names() == ["a.txt"]


async def test_strange_signs_are_the_name_of_nothing(api: Api) -> None:
    await api.make()
    await api.put("a.txt")
    answer = await delete(api, collection="mill", name_glob="a\0*", media_types=["\0"], reason="\0")
    assert (answer.status, answer.json) == (202, {"deleted": 0, "more": False, "restorable_until": None})


async def test_a_receipt_comes_with_the_removal(api: Api) -> None:
    await api.make()
    made = (await api.put("a.txt", b"water")).json
    path = f"/api/documents/{made['id']}"
    answer = await api.get(f"{path}/receipt")
    assert (answer.status, "only a document that was removed" in answer.json["detail"]) == (404, True)
    assert (await api.ask("DELETE", path)).status == 202
    assert "can be restored until" in (await api.get(f"{path}/receipt")).json["detail"]
    assert await remove(api) == 0
    deleted = await api.ask("DELETE", f"{path}?now=true")
    assert (deleted.status, deleted.json["restorable_until"]) == (202, None)
    assert "not removed yet" in (await api.get(f"{path}/receipt")).json["detail"]
    await remove(api)
    receipt = (await api.get(f"{path}/receipt")).json
    assert (receipt["removed"]["blobs"], receipt["removed"]["bytes"]) == (1, 5)
    assert receipt["verified_at"]
    assert api.blobs() == []
    assert (await api.ask("DELETE", path)).json["status"] == "deleted", "again is the same"
    shown = (await api.get(path)).json
    assert (shown["status"], shown["digest"]) == ("deleted", made["digest"])
    for part in ("text", "content", "why", "history", "pages", "chunks"):
        assert (await api.get(f"{path}/{part}")).status in {200, 404}, part
    answer = await api.ask("POST", f"{path}/restore")
    assert (answer.status, "upload it again" in answer.json["detail"]) == (409, True)
    assert (await api.get("/api/documents/99999/receipt")).status == 404


async def test_now_needs_the_admin_scope(api: Api) -> None:
    await api.make()
    path = (await api.put("a.txt")).headers["Location"]
    made = (await api.ask("POST", "/api/keys", json={"name": "writer", "scopes": ["read", "write"]})).json
    key = {"Authorization": f"Bearer {made['key']}"}
    for method, where, body in (
        ("DELETE", f"{path}?now=true", None),
        ("POST", "/api/documents/delete", {"collection": "mill", "all": True, "now": True}),
    ):
        answer = await api.ask(method, where, json=body, headers=key)
        assert (answer.status, "scope admin" in answer.json["detail"]) == (403, True), where
    assert await api.names() == ["a.txt"]
    deleted = await api.ask("DELETE", path, headers=key)
    assert (deleted.status, bool(deleted.json["restorable_until"])) == (202, True)
    assert (await api.ask("DELETE", f"{path}?now=true", headers=key)).status == 403, "nor for a deleted one"
    assert (await api.ask("POST", f"{path}/restore", headers=key)).status == 202


async def test_it_comes_back_in_time(api: Api) -> None:
    await api.make()
    made = (await api.put("a.txt", b"water")).json
    path = f"/api/documents/{made['id']}"
    assert (await api.ask("POST", f"{path}/restore")).status == 409
    await api.ask("DELETE", path)
    assert await remove(api) == 0
    answer = await api.ask("POST", f"{path}/restore")
    assert (answer.status, answer.json["status"]) == (202, "queued")
    await api.ask("DELETE", path)
    other = (await api.put("a.txt", b"other")).json
    answer = await api.ask("POST", f"{path}/restore")
    assert (answer.status, answer.json["existing"]) == (409, other["id"])
