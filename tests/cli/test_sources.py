"""`penstock sources`, `penstock inbox` and `penstock packets` as a person uses them."""

import json
from pathlib import Path

from penstock.documents import SourceMessage
from penstock.product import Product
from penstock.settings import DatabaseUrl
from tests.processes import penstock

SOURCE = {"PENSTOCK_SOURCES__ORDERS__TYPE": "webhook", "PENSTOCK_SOURCES__ORDERS__SECRET": "not-shown"}


async def test_messages_that_wait_fail_and_are_tried_again(database_url: DatabaseUrl, tmp_path: Path) -> None:
    environ = SOURCE | {"PENSTOCK_DATABASE_URL": database_url.reveal(), "PENSTOCK_HOME": str(tmp_path)}
    settings = {"orders": {"type": "webhook", "secret": "not-shown"}}
    async with Product(database_url=database_url, home=tmp_path, pool={"size": 2}, sources=settings) as product:
        await product.inbox.receive(
            "orders", [SourceMessage("a", {"content": "eA=="}), SourceMessage("b", {"name": "b"})]
        )
        await product.app.cancel(*[row["job_id"] for row in await _jobs(product, "b")], reason="of no use")
    code, said = await penstock("sources", "list", "--json", **environ)
    assert code == 0, said
    [source] = json.loads(said)["sources"]
    assert (source["received"], source["waiting"], source["failed"], source["type"]) == (2, 1, 1, "webhook")
    code, said = await penstock("inbox", "list", "--state", "failed", **environ)
    assert (code, "of no use" in said, "orders" in said) == (0, True, True), said
    code, said = await penstock("inbox", "retry", "999999", **environ)
    assert (code, "does not exist" in said) == (2, True), said
    assert "not-shown" not in said


async def test_a_packet_of_files(database_url: DatabaseUrl, tmp_path: Path) -> None:
    environ = {"PENSTOCK_DATABASE_URL": database_url.reveal(), "PENSTOCK_HOME": str(tmp_path)}
    (tmp_path / "cover.txt").write_text("COVER SHEET\n\nTo: the board\nPages: 2\n")
    (tmp_path / "a.md").write_text("# PART A\n\nThe sluice gate.\n")
    files = [str(tmp_path / name) for name in ("cover.txt", "a.md")]
    code, said = await penstock("packets", "add", *files, "--wait", **environ)
    assert (code, "ready" in said, "cover" in said) == (0, True, True), said
    code, said = await penstock("packets", "show", "cover", "--json", **environ)
    shown = json.loads(said)
    assert (code, shown["pages"], [each["first_page"] for each in shown["documents"]]) == (0, 2, [1, 2])
    code, said = await penstock("packets", "list", **environ)
    assert (code, "default" in said) == (0, True)
    code, said = await penstock("packets", "add", str(tmp_path / "nowhere.pdf"), **environ)
    assert (code, "is not a file" in said) == (2, True)
    code, said = await penstock("packets", "add", *files, **environ)
    assert (code, "unchanged" in said) == (0, True), said


async def _jobs(product: Product, message_id: str) -> list[dict[str, int]]:
    rows = await product.app.database.pool.repeat(
        lambda session: session.fetch("select job_id from penstock.inbox where message_id = $1", message_id)
    )
    return [dict(row) for row in rows]
