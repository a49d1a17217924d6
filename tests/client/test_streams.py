"""Conversations and memos by the client, in both flavours."""

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock import client as api
from tests.client.both_clients import ClientCalls
from tests.client.conftest import ServedProduct

MEMO = """
with memo as (
  insert into penstock.memos (stream_id, text, kind, confidence, words, llm, job_id)
  select id, 'The gate is of oak.', 'fact', 0.9, to_tsvector('english', 'The gate is of oak.'), 'main', 1 from penstock.streams
  returning id, stream_id
)
insert into penstock.memo_messages (memo_id, stream_id, seq) select id, stream_id, 1 from memo
"""


async def test_streams(call: ClientCalls, served: ServedProduct) -> None:
    at = datetime(2026, 11, 17, 18, tzinfo=UTC)
    said: list[dict[str, Any]] = [
        {"message_id": "1", "text": "The gate is of oak.", "author": "Ann", "at": at},
        {"text": "Is it?"},
    ]
    posted = await call(lambda c: c.streams.post("talk", said))
    assert [(each.number, each.created) for each in posted.messages] == [(1, True), (2, True)]
    assert (await call(lambda c: c.streams.post("talk", said[:1]))).messages[0].created is False
    with pytest.raises(api.WrongState):
        await call(lambda c: c.streams.post("talk", [{"message_id": "1", "text": "No."}]))
    async with served.product.app.transaction() as tx:
        await tx.execute(MEMO)
    shown = await call(lambda c: c.streams.show("talk"))
    assert (shown.name, shown.last, shown.state, shown.memos) == ("talk", 2, "waiting", 1)
    assert [each.name for each in await call(lambda c: c.streams.list())] == ["talk"]
    messages = await call(lambda c: c.streams.messages("talk", page=1))
    assert [(each.number, each.text, each.at) for each in messages] == [(1, said[0]["text"], at), (2, "Is it?", None)]
    [memo] = await call(lambda c: c.streams.memos("talk"))
    assert (memo.text, memo.kind, [each.author for each in memo.messages]) == ("The gate is of oak.", "fact", ["Ann"])
    assert [each.id for each in await call(lambda c: c.streams.search("oak gate", stream="talk", every=True))] == [
        memo.id
    ]
    assert await call(lambda c: c.streams.delete_message("talk", 1)) is None
    assert await call(lambda c: c.streams.memos(every=True)) == []
    assert await call(lambda c: c.streams.delete("talk")) is None
    with pytest.raises(api.NotFound):
        await call(lambda c: c.streams.show("talk"))
