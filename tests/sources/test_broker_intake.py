"""Bodies as messages, and batches of them: what cannot be used is in nobody's way."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.documents import SourceMessage
from penstock.errors import BadSetting
from penstock.product import Product
from penstock.settings import DatabaseUrl
from penstock.settings.sources import SourceSettings
from penstock.sources import SourceContext, Sources
from penstock.sources.broker_intake import BATCH_BYTES, Arrival, batches, read_message, take
from tests.sources.brokers import inbox

CHOSEN = SourceSettings(type="webhook", secret="s", message_id_from="order.number", largest="1kB")


@pytest.mark.parametrize(
    ("body", "given", "number"),
    [
        (b'{"order": {"number": 7}}', "", "7"),
        (b'{"order": {"number": "x"}}', "given", "given"),
        (b'{"order": {"number": true}}', "", None),
        (b'{"order": [1]}', "", None),
        (b"{}", "", None),
        ('{"ä": "\\u0000"}'.encode("utf-16"), "utf-16 is JSON, too", "utf-16 is JSON, too"),
    ],
)
def test_the_number_of_a_message(body: bytes, given: str, number: str | None) -> None:
    message = read_message(CHOSEN, body, given)
    assert not message.poison
    assert len(message.id) == 64 if number is None else message.id == number


def test_poison_has_a_number_of_its_own() -> None:
    """The sender may correct it: the good one is not a change of the bad one."""
    first, second = (read_message(CHOSEN, body, "m") for body in (b"{", b"["))
    assert first.poison
    assert len({first.id, second.id, read_message(CHOSEN, b"{}", "m").id}) == 3
    assert read_message(CHOSEN, b"x" * 1025).poison.startswith("The message has 1025B")


def test_batches() -> None:
    def came(*numbers: str, size: int = 1) -> list[Arrival[str]]:
        return [Arrival(SourceMessage(number, {}), size, number) for number in numbers]

    def cut(arrivals: list[Arrival[str]]) -> list[str]:
        return ["".join(each.delivery for each in batch) for batch in batches(arrivals)]

    assert cut([]) == []
    assert cut(came(*"abcbad")) == ["abc", "bad"]
    assert cut(came(*"aaa")) == ["a", "a", "a"]
    assert cut(came(*"ab", size=BATCH_BYTES) + came(*"cd", size=BATCH_BYTES // 2)) == ["a", "b", "cd"]


@pytest.fixture
async def desk(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[SourceContext]:
    source: dict[str, Any] = {"type": "webhook", "secret": "s", "on_change": "error", "waiting": 5}
    async with Product(
        database_url=database_url, home=tmp_path, pool={"size": 4}, sources={"orders": source}
    ) as product:
        yield SourceContext(
            "orders", product.settings.sources["orders"], product.settings, product.inbox, product.store
        )


async def test_one_that_cannot_be_kept_does_not_keep_out_the_others(desk: SourceContext) -> None:
    arrivals = [Arrival(SourceMessage(number, {"n": number}), 1, number) for number in ("a", "", "b")]
    taken = await take(desk, arrivals, patience=1)
    assert (taken.good, taken.new) == (["a", "b"], 3)
    assert [delivery for delivery, _ in taken.refused] == [""]
    query = "select message_id, payload from penstock.inbox order by id"
    rows = await desk.inbox.app.database.pool.repeat(lambda session: session.fetch(query))
    assert [row["message_id"][:2] for row in rows] == ["a", "po", "b"]
    assert "has no id" in json.loads(rows[1]["payload"])["penstock:poison"]


async def test_conflicts_are_refused_and_room_is_counted(desk: SourceContext) -> None:
    assert await desk.room() == 5
    await take(desk, [Arrival(SourceMessage("a", {"v": 1}), 1, 1)], patience=1)
    assert await desk.room() == 4
    taken = await take(
        desk, [Arrival(SourceMessage("a", {"v": 2}), 1, 2), Arrival(SourceMessage("b", {}), 1, 3)], patience=1
    )
    assert (taken.good, [delivery for delivery, _ in taken.refused], taken.new) == ([3], [2], 1)
    assert await desk.inbox.find("orders", "a") == (await _number_of(desk, "a"), "waiting")
    await take(desk, [Arrival(SourceMessage(str(number), {}), 1, number) for number in range(9)], patience=1)
    assert await desk.room() == 0
    assert not await desk.has_room()


async def _number_of(desk: SourceContext, message_id: str) -> int:
    query = "select id from penstock.inbox where message_id = $1"
    number: int = await desk.inbox.app.database.pool.repeat(lambda session: session.fetchval(query, message_id))
    return number


@pytest.mark.parametrize(
    ("kind", "module", "extra"),
    [("rabbitmq", "aio_pika", "penstock[rabbitmq]"), ("servicebus", "azure.servicebus", "penstock[servicebus]")],
)
async def test_a_library_that_is_not_installed(
    database_url: DatabaseUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    source = {"type": kind, "url": "amqp://x", "queue": "q"}
    product = Product(database_url=database_url, home=tmp_path, sources={"orders": source})
    with pytest.raises(BadSetting, match=r"The source orders needs .* pip install") as missing:
        Sources(product).open("orders")
    assert extra in str(missing.value)
    with pytest.raises(BadSetting, match="The bus needs"):
        Product(database_url=database_url, home=tmp_path, bus={"type": kind, "url": "amqp://x"})
    async with product:
        assert await inbox(product) == []
