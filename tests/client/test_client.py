"""Every method against the real API, in both flavours."""

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from penstock import client as api
from tests.client.both_clients import ClientCalls
from tests.client.conftest import ServedProduct

TEXT = b"The turbine of the mill was repaired in spring.\n"


def content_of(number: int) -> Callable[[Any], Any]:
    return lambda client: client.documents.content(number)


def putting(name: str) -> Callable[[Any], Any]:
    return lambda client: client.documents.put("mill", TEXT, name, metadata={"name": name})


def some(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield TEXT


async def some_slowly(count: int) -> AsyncIterator[bytes]:
    for piece in some(count):
        await asyncio.sleep(0)
        yield piece


async def test_collections(call: ClientCalls) -> None:
    made = await call(lambda c: c.collections.create("flood", chunk_size=700))
    assert (made.name, made.chunk_size) == ("flood", 700)
    assert isinstance(made.created_at, datetime)
    with pytest.raises(api.NameTaken) as taken:
        await call(lambda c: c.collections.create("flood"))
    assert taken.value.existing == made.id
    assert [each.name for each in await call(lambda c: c.collections.list(page=1))] == ["flood", "mill"]
    changed = await call(lambda c: c.collections.change("flood", new_name="floods", chunk_size=800))
    assert (changed.name, changed.chunk_size) == ("floods", 800)
    assert (await call(lambda c: c.collections.show("floods"))).statuses["ready"] == 0
    assert (await call(lambda c: c.collections.delete("floods"))).restorable_until > datetime.now(UTC)
    assert (await call(lambda c: c.collections.restore("floods"))).id == made.id
    assert (await call(lambda c: c.collections.delete("floods", now=True))).restorable_until is None
    with pytest.raises(api.NotFound, match="floods"):
        await call(lambda c: c.collections.show("floods"))
    with pytest.raises(api.NotFound):
        await call(lambda c: c.collections.delete("floods"))


async def test_sources(call: ClientCalls, tmp_path: Path) -> None:
    path = tmp_path / "a file.txt"
    path.write_bytes(TEXT * 3)
    opened = io.BytesIO(b"no" + TEXT)
    opened.seek(2)
    sent = {
        "a file.txt": (await call(lambda c: c.documents.put("mill", path)), TEXT * 3),
        "bytes": (await call(lambda c: c.documents.put("mill", TEXT, "bytes")), TEXT),
        "open": (await call(lambda c: c.documents.put("mill", opened, "open")), TEXT),
        "pieces": (await call(lambda c: c.documents.put("mill", some(4), "pieces")), TEXT * 4),
        "nothing": (await call(lambda c: c.documents.put("mill", b"", "nothing")), b""),
    }
    if call.flavour == "async":
        sent["slow"] = (await call(lambda c: c.documents.put("mill", some_slowly(5), "slow")), TEXT * 5)
    for name, (accepted, content) in sent.items():
        assert (accepted.name, accepted.created, accepted.status) == (name, True, "queued")
        assert accepted.digest == hashlib.sha256(content).hexdigest()
        assert b"".join(await call(content_of(accepted.id))) == content
    with pytest.raises(ValueError, match="name"):
        await call(lambda c: c.documents.put("mill", TEXT))
    with pytest.raises(TypeError, match="cannot be sent"):
        await call(lambda c: c.documents.put("mill", 7, "seven"))
    with pytest.raises(TypeError, match="rb"):
        await call(lambda c: c.documents.put("mill", io.StringIO("text"), "text"))


@pytest.mark.parametrize("name", ["2024/may/a.txt", "a?b#c%2F&d.txt", "für alle é.txt", "a+b c;d=e.txt"])
async def test_any_name_arrives(call: ClientCalls, name: str) -> None:
    accepted = await call(lambda c: c.documents.put("mill", TEXT, name))
    assert accepted.name == name
    assert (await call(lambda c: c.documents.find("mill", name))).id == accepted.id


async def test_no_name_leads_elsewhere(call: ClientCalls) -> None:
    """`..` would be resolved to the route of another thing."""
    accepted = await call(lambda c: c.documents.put("mill", TEXT, "a"))
    with pytest.raises(api.Refused):
        await call(lambda c: c.documents.find("mill", f"../../../documents/{accepted.id}"))
    with pytest.raises(api.Refused):
        await call(lambda c: c.documents.put("mill", TEXT, ".."))
    with pytest.raises(api.Refused):
        await call(lambda c: c.collections.delete("mill/../mill"))
    assert [each.name for each in await call(lambda c: c.collections.list())] == ["mill"]


async def test_taken_replaced_unchanged(call: ClientCalls) -> None:
    first = await call(lambda c: c.documents.put("mill", TEXT, "a", metadata={"year": 2024}, uploaded_by="ada"))
    shown = await call(lambda c: c.documents.show(first.id))
    assert (shown.uploaded_by, shown.metadata) == ("ada", {"year": 2024})
    with pytest.raises(api.NameTaken, match="a") as taken:
        await call(lambda c: c.documents.put("mill", b"other", "a"))
    assert (taken.value.existing, taken.value.status) == (first.id, 409)
    assert (await call(lambda c: c.documents.put("mill", b"other", "a", replace=True))).version == 2
    again = await call(lambda c: c.documents.put("mill", b"other", "a", replace=True))
    assert (again.version, again.unchanged) == (2, True)
    versions = await call(lambda c: c.documents.versions(first.id))
    assert [(each.number, each.size) for each in versions] == [(1, len(TEXT)), (2, 5)]


async def test_the_same_key_is_done_once(call: ClientCalls) -> None:
    first = await call(lambda c: c.documents.put("mill", TEXT, "a", key="mine"))
    assert await call(lambda c: c.documents.put("mill", TEXT, "a", key="mine")) == first
    with pytest.raises(api.KeyReused):
        await call(lambda c: c.documents.put("mill", b"other", "a", key="mine"))
    with pytest.raises(ValueError, match="printable"):
        await call(lambda c: c.documents.put("mill", b"other", "b", key="a\nb"))


async def test_several(call: ClientCalls, tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(TEXT)
    await call(lambda c: c.documents.put("mill", TEXT, "b"))
    files = {'a "1".txt': TEXT, "b": b"other", "c": tmp_path / "c", "d": some(2)}
    answers = await call(lambda c: c.documents.post("mill", files, metadata={"year": 2024}))
    assert [(each.name, each.code) for each in answers] == [('a "1".txt', 202), ("b", 409), ("c", 202), ("d", 202)]
    assert isinstance(answers[1].error, api.NameTaken)
    assert answers[0].error is None
    assert (await call(lambda c: c.documents.show(answers[2].document.id))).metadata == {"year": 2024}
    [alone] = await call(lambda c: c.documents.post("mill", {"e": TEXT}))
    assert (alone.name, alone.document.size) == ("e", len(TEXT))
    with pytest.raises(api.NameTaken):
        await call(lambda c: c.documents.post("mill", {"e": b"other"}))


async def test_a_link_is_the_servers_to_follow(call: ClientCalls) -> None:
    with pytest.raises(api.FetchRefused):
        await call(lambda c: c.documents.put_link("mill", "http://127.0.0.1:80/a", "a"))


async def test_lists_go_over_pages(call: ClientCalls) -> None:
    for number in range(5):
        await call(putting(f"{number}"))
    listed = await call(lambda c: c.documents.list(collection="mill", page=2))
    assert [each.name for each in listed] == ["0", "1", "2", "3", "4"]
    assert await call(lambda c: c.documents.list(status="failed")) == []
    with pytest.raises(api.BadValue) as bad:
        await call(lambda c: c.documents.list(status="lost"))
    assert bad.value.errors[0]["where"] == "query.status"


async def test_a_documents_life(call: ClientCalls, served: ServedProduct) -> None:
    accepted = await call(lambda c: c.documents.put("mill", TEXT, "a.txt"))
    broken = await call(lambda c: c.documents.put("mill", b"%PDF-1.7 broken", "b.pdf"))
    with pytest.raises(api.StillWaiting) as waiting:
        await call(lambda c: c.documents.wait(accepted.id, timeout=0.01))
    assert waiting.value.document.status == "queued"
    async with served.working():
        ready = await call(lambda c: c.documents.wait(accepted.id, timeout=30))
        failed = await call(lambda c: c.documents.wait(broken.id, timeout=30))
    assert (ready.status, ready.live_version, failed.status) == ("ready", 1, "failed")
    assert await call(lambda c: c.documents.text(accepted.id)) == TEXT.decode()
    [page] = await call(lambda c: c.documents.pages(accepted.id))
    [chunk] = await call(lambda c: c.documents.chunks(accepted.id))
    assert "turbine" in page.text
    assert (chunk.number, chunk.text.strip()) == (0, page.text.strip())
    assert (await call(lambda c: c.documents.why(broken.id))).sentence
    assert (await call(lambda c: c.jobs.why(ready.job or 0))).because == "done"
    assert (await call(lambda c: c.documents.history(accepted.id)))[0].event
    found = await call(lambda c: c.search("turbine repaired", collection=["mill"], mode="words", neighbours=1))
    assert [hit.document for hit in found.hits] == [accepted.id]
    assert found.hits[0].highlights
    assert (await call(lambda c: c.status(collection="mill"))).documents["ready"] == 1

    assert (await call(lambda c: c.documents.dismiss(broken.id))).dismissed_at is not None
    assert not (await call(lambda c: c.documents.retry(broken.id))).is_over
    assert (await call(lambda c: c.documents.cancel(broken.id))).status == "failed"
    with pytest.raises(api.Refused):
        await call(lambda c: c.documents.retry(accepted.id))
    assert (await call(lambda c: c.documents.delete(accepted.id))).status == "deleted"
    assert (await call(lambda c: c.documents.delete(accepted.id))).status == "deleted"
    assert (await call(lambda c: c.search("turbine repaired"))).hits == []
    with pytest.raises(api.NotFound):
        await call(lambda c: c.documents.content(accepted.id))


async def test_a_download_goes_on(call: ClientCalls, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4000
    accepted = await call(lambda c: c.documents.put("mill", content, "a"))
    target, part = tmp_path / "got", tmp_path / "got.part"
    for left in (b"", content[:300_000], b"of another document", content, content + b"more"):
        part.write_bytes(left)
        fetched = await call(lambda c: c.documents.download(accepted.id, target))
        assert (fetched.size, fetched.digest) == (len(content), accepted.digest)
        assert target.read_bytes() == content
        assert not part.exists()
    assert b"".join(await call(lambda c: c.documents.content(accepted.id, start=999_000))) == content[999_000:]
    with pytest.raises(api.NotFound):
        await call(lambda c: c.documents.download(99, tmp_path / "none"))
    assert list(tmp_path.glob("none*")) == []


async def test_events(call: ClientCalls, served: ServedProduct) -> None:
    names = iter("ab")

    async def change() -> None:
        await call(lambda c: c.documents.put("mill", TEXT, next(names)))

    async with asyncio.timeout(20):
        seen = await call.first(lambda c: c.events(), 3, change)
    assert [each.event for each in seen] == ["changed"] * 3


async def test_health(call: ClientCalls) -> None:
    assert (await call(lambda c: c.live())).status == "live"
    ready = await call(lambda c: c.ready())
    assert ready.status == "not ready"
    assert ready.problems[0].startswith("No worker is running"), "an answer, and no error"


async def test_findings(call: ClientCalls) -> None:
    [finding] = await call(lambda c: c.fleet.findings())
    assert (finding.name, finding.severity, finding.acknowledged_until) == ("no-worker", "urgent", None)
    [acknowledged] = await call(lambda c: c.fleet.acknowledge("no-worker", seconds=60))
    assert acknowledged.acknowledged_until is not None
    [finding] = (await call(lambda c: c.status())).findings
    assert finding.acknowledged_until == acknowledged.acknowledged_until
    with pytest.raises(api.NotFound):
        await call(lambda c: c.fleet.acknowledge("none"))


async def test_too_much(call: ClientCalls) -> None:
    """The answer comes before all is sent, and is heard."""
    with pytest.raises(api.BodyTooLarge):
        await call(lambda c: c.documents.put("mill", bytes(6_000_000), "a"))
    with pytest.raises(api.BodyTooLarge):
        await call(lambda c: c.documents.put("mill", some(200_000), "a"))
    assert await call(lambda c: c.documents.list()) == []


async def test_deletion(call: ClientCalls) -> None:
    for name in ("a.tmp", "b.tmp", "c.txt"):
        await call(putting(name))
    with pytest.raises(api.BadValue):
        await call(lambda c: c.documents.delete_matching("mill"))
    deleted = await call(lambda c: c.documents.delete_matching("mill", name_glob="*.tmp", limit=1))
    assert (deleted.deleted, deleted.more) == (1, True)
    assert (await call(lambda c: c.documents.delete_matching("mill", metadata={"name": "b.tmp"}))).deleted == 1
    assert [each.name for each in await call(lambda c: c.documents.list())] == ["c.txt"]
    [gone, other] = await call(lambda c: c.documents.list(status="deleted"))
    assert gone.restorable_until >= deleted.restorable_until
    assert (await call(lambda c: c.documents.restore(gone.id))).status == "queued"
    assert (await call(lambda c: c.documents.delete(other.id, now=True))).restorable_until is None
    with pytest.raises(api.Refused):
        await call(lambda c: c.documents.restore(other.id))
    assert (await call(lambda c: c.documents.delete_matching("mill", all=True, now=True))).restorable_until is None
    with pytest.raises(api.NotFound):
        await call(lambda c: c.documents.receipt(99))
    assert isinstance(await call(lambda c: c.documents.receipts()), list)


async def test_keys_and_links(call: ClientCalls, served: ServedProduct, flavour: str) -> None:
    accepted = await call(lambda c: c.documents.put("mill", TEXT, "a"))
    made = await call(lambda c: c.keys.create("reader", scopes=["read"], collections=["mill"], expires_in=60))
    assert made.key not in repr(made)
    assert [(each.id, each.key) for each in await call(lambda c: c.keys.list())] == [(made.id, None)]
    reader = ClientCalls(flavour, served.url, key=made.key)
    assert (await reader(lambda c: c.documents.show(accepted.id))).name == "a"
    with pytest.raises(api.NotAllowed):
        await reader(lambda c: c.documents.delete(accepted.id))
    link = await reader(lambda c: c.documents.link(accepted.id, seconds=60))
    async with aiohttp.ClientSession() as anybody, anybody.get(link.url) as answer:
        assert await answer.read() == TEXT
    assert not (await call(lambda c: c.keys.revoke(made.id))).usable
    await reader.aclose()
    stranger = ClientCalls(flavour, served.url, key="pk_wrong")
    with pytest.raises(api.BadKey):
        await stranger(lambda c: c.documents.show(accepted.id))
    await stranger.aclose()
