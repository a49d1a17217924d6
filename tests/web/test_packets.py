"""Packets by HTTP: as a form, as a list, shown, explained, drawn; and everything that a sender may do wrong."""

import asyncio
import base64
import io
from typing import Any

import aiohttp
import pytest

from tests.web.conftest import Answer, Api

TEXT = b"PART A\n\nThe weir was mended.\n"


@pytest.fixture(autouse=True)
async def mill_collection(api: Api) -> None:
    await api.make("mill")


async def post(api: Api, query: str, **files: bytes) -> Answer:
    form = aiohttp.FormData(default_to_multipart=True, quote_fields=False)
    for name, content in files.items():
        form.add_field("file", io.BytesIO(content), filename=name)
    return await api.ask("POST", f"/api/packets?{query}", data=form)


async def until_over(api: Api, number: int) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            shown: dict[str, Any] = (await api.get(f"/api/packets/{number}")).json
            if shown["status"] in {"ready", "failed"}:
                return shown
            await asyncio.sleep(0.05)


async def test_a_form_becomes_a_packet(api: Api) -> None:
    async with api.working():
        answer = await post(api, "collection=mill&name=42", cover=b"COVER SHEET\n\nTo: all\nPages: 2\n", a=TEXT)
        assert answer.status == 202, answer.json
        number = answer.json["id"]
        assert answer.headers["Location"] == f"/api/packets/{number}"
        shown = await until_over(api, number)
        assert (shown["status"], shown["pages"], shown["merged"]) == ("ready", 2, True)
        assert [(each["name"], each["first_page"]) for each in shown["documents"]] == [("cover", 1), ("a", 2)]
        assert {part["label"] for part in shown["parts"]} == {"cover", "A"}
        listed = (await api.get("/api/packets")).json["items"]
        assert [each["id"] for each in listed] == [number]
        image = await api.get(f"/api/documents/{number}/pages/2/image?width=200")
        assert (image.status, image.headers["Content-Type"], image.body[:4]) == (200, "image/png", b"\x89PNG")
        assert (await api.get(f"/api/documents/{number}/pages/9/image")).status == 404
        why = (await api.get(f"/api/packets/{number}/why")).json
        assert "is ready" in why["sentence"]
        [hit] = (await api.get("/api/search?q=weir&mode=words")).json["hits"]
        assert (hit["packet"], hit["packet_page"], hit["page"]) == (number, 2, 1)
        again = await post(api, "collection=mill&name=42", a=TEXT)
        assert (again.status, again.json["existing"]) == (409, number)
        member = shown["documents"][0]["document"]
        assert (await api.get(f"/api/packets/{member}")).status == 404, "a document is no packet"


async def test_a_list_is_a_message_until_its_documents_are_fetched(api: Api) -> None:
    content = base64.b64encode(TEXT).decode()
    body = {"collection": "mill", "name": "7", "documents": [{"name": "a.txt", "content": content}], "message_id": "m1"}
    answer = await api.ask("POST", "/api/packets", json=body)
    assert (answer.status, answer.json["created"]) == (202, True)
    number = answer.json["id"]
    shown = (await api.get(f"/api/packets/{number}")).json
    assert (shown["status"], shown["name"], shown["merged"]) == ("queued", "7", False)
    assert "still a message" in (await api.get(f"/api/packets/{number}/why")).json["sentence"]
    again = await api.ask("POST", "/api/packets", json=body)
    assert (again.json["id"], again.json["created"], again.json["unchanged"]) == (number, False, True)
    async with api.working():
        shown = await until_over(api, number)
        assert (shown["status"], shown["id"], shown["pages"]) == ("ready", number, 1)


async def test_a_list_that_leads_nowhere_fails_with_its_reason(api: Api) -> None:
    body = {"collection": "mill", "name": "8", "documents": [{"url": "http://127.0.0.1/x.pdf"}]}
    number = (await api.ask("POST", "/api/packets", json=body)).json["id"]
    async with api.working():
        shown = await until_over(api, number)
        assert shown["status"] == "failed"
        assert "loopback" in shown["error"]["message"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "collection"),
        ({"collection": "mill", "name": "x", "documents": []}, "documents"),
        ({"collection": "mill", "name": "x", "documents": [{"nonsense": 1}]}, "nonsense"),
        ({"collection": "mill", "name": "x", "documents": [{"content": "eA=="}] * 201}, "packet.documents"),
    ],
)
async def test_a_list_that_cannot_be_used(api: Api, body: dict[str, Any], said: str) -> None:
    answer = await api.ask("POST", "/api/packets", json=body)
    assert answer.status == 422
    assert said in answer.json["detail"]


async def test_a_form_that_cannot_be_used(api: Api) -> None:
    assert (await post(api, "collection=nowhere&name=x", a=TEXT)).status == 404
    assert (await post(api, "collection=mill&name=../x", a=TEXT)).status == 422
    empty = await post(api, "collection=mill&name=x")
    assert (empty.status, "no file" in empty.json["detail"]) == (400, True)
    nothing = await api.ask("POST", "/api/packets?collection=mill&name=x", data=b"")
    assert nothing.status == 400
