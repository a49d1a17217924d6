"""`penstock streams` and `penstock memos`, as people run them."""

from pathlib import Path

from penstock.settings import DatabaseUrl
from tests.memos.memo_model import MemoModel, memo, product_of, read, say, working
from tests.models.chat import refuses
from tests.processes import penstock


async def test_what_is_there_and_what_failed(database_url: DatabaseUrl, tmp_path: Path, memo_model: MemoModel) -> None:
    environ = {"PENSTOCK_DATABASE_URL": database_url.reveal(), "PENSTOCK_HOME": str(tmp_path)}
    assert await penstock("streams", "list", **environ) == (
        0,
        "No stream exists: POST /api/streams/NAME/messages makes one.\n",
    )
    memo_model.judge = lambda older, newer: "contradicts"
    memo_model.find = lambda lines: [memo(line) for line in lines]
    async with product_of(database_url, tmp_path, memo_model.chat) as product, working(product):
        await say(product, "mill", "The sluice gate is made of oak.", "The sluice gate is\x1b[31m made of steel.")
        await read(product)
        memo_model.chat.usual = refuses(400)
        await say(product, "ferry", "The ferry is green.")
        await read(product)
    code, said = await penstock("streams", "list", **environ)
    assert code == 0, said
    mill = next(line for line in said.splitlines() if line.startswith("mill"))
    assert mill.split() == ["mill", "2", "0", "1", "idle"]
    ferry = next(line for line in said.splitlines() if line.startswith("ferry"))
    assert "failed" in ferry
    assert "rejects the request (400)" in ferry
    code, said = await penstock("memos", "list", "--stream", "mill", "--all", **environ)
    assert (code, "superseded by 2" in said, "\x1b" in said) == (0, True, False), said
    code, said = await penstock("memos", "search", "what is the gate made of", "-k", "1", **environ)
    assert code == 0
    assert said.startswith("2. The sluice gate is")
    code, said = await penstock("memos", "list", "--stream", "nothing", **environ)
    assert (code, "The stream nothing does not exist" in said) == (2, True), said
