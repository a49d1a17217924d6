"""A bucket that is listed again and again: S3 on moto's server and Azure on Azurite; what goes wrong in a listing is said."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import obstore
import pytest

from penstock.blobs import cloud as our_cloud
from penstock.documents import list_documents, show_document
from penstock.errors import PenstockError, Transient
from penstock.product import Product
from penstock.settings import DatabaseUrl
from penstock.sources import SourceContext, Trouble, bucket
from penstock.sources.bucket import BucketSource, open_source
from tests.blobs import servers
from tests.product_with_source import product_with_source, text_of, until_settled
from tests.product_with_worker import rows


@pytest.fixture(scope="module", params=[pytest.param(each, marks=pytest.mark.real) for each in ("s3", "azure")])
def cloud(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Cloud]:
    if request.param == "s3":
        with servers.s3() as made:
            yield made
    else:
        with servers.azure(tmp_path_factory.mktemp("azurite")) as made:
            yield made


def opened(product: Product) -> BucketSource:
    """The source as a process that has just started has it."""
    return open_source(
        SourceContext("orders", product.settings.sources["orders"], product.settings, product.inbox, product.store)
    )


@asynccontextmanager
async def listing(
    database_url: DatabaseUrl, home: Path, cloud: servers.Cloud, **chosen: Any
) -> AsyncIterator[tuple[Product, BucketSource]]:
    settings = {
        "type": "bucket",
        "url": f"{cloud.url}/{secrets.token_hex(4)}",
        "endpoint": cloud.endpoint,
        "options": cloud.options,
        "poll_every": "1ms",
    }
    async with product_with_source(database_url, home, **(settings | chosen)) as product:
        yield product, opened(product)


async def test_a_check_reads_and_changes_nothing(
    database_url: DatabaseUrl, tmp_path: Path, cloud: servers.Cloud
) -> None:
    async with listing(database_url, tmp_path, cloud, batch=2) as (product, source):
        for key in ("a.txt", "b.txt", "c.txt"):
            await put(source, key)
        found = await source.check()
        assert (found.new, found.more) == (2, True)
        assert await rows(product, "select from penstock.inbox union all select from penstock.sources") == []


async def put(source: BucketSource, key: str, text: str = "The sluice gate was repaired.") -> None:
    await obstore.put_async(source.bucket.objects, key, text.encode())


async def go_through(source: BucketSource) -> int:
    """One listing to its end; the pages."""
    pages = 0
    await asyncio.sleep(0.002)  # poll_every is over
    while await source.poll():
        pages += 1
    return pages


async def names(product: Product) -> list[str]:
    return sorted(each.name for each in await list_documents(product.app))


async def test_objects_become_documents_once(cloud: servers.Cloud, database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with listing(database_url, tmp_path, cloud, pattern="*.txt", batch=2) as (product, source):
        wanted = ["a.txt", "b/c.txt", "b/d/e.TXT", "z ä#%+.txt", "ö.txt"]
        for key in (*wanted, "other.pdf"):
            await put(source, key, f"This is {key}.")
        await put(source, "folder.txt", "")
        assert await go_through(source) == 4
        assert await go_through(opened(product)) == 4
        found = await until_settled(product)
        assert await names(product) == wanted
        assert [row["repeats"] for row in found] == [0] * 5
        assert found[0]["message_id"].startswith("a.txt@")
        for version, text in ((2, "Changed."), (3, "This is a.txt.")):  # S3 has the first ETag again
            await asyncio.sleep(1.01)  # its times are whole seconds
            await put(source, "a.txt", text)
            await go_through(source)
            await until_settled(product)
            shown = await show_document(product.app, found[0]["document_id"])
            assert (shown.version, await text_of(product, shown.id)) == (version, text)
        [row] = await rows(product, "select * from penstock.sources")
        assert json.loads(row["position"])["after"] is None
        assert (row["received"], row["repeats"]) == (7, 0)


async def test_what_was_replaced_since_it_was_listed_is_taken_once(
    cloud: servers.Cloud, database_url: DatabaseUrl, tmp_path: Path
) -> None:
    async with listing(database_url, tmp_path, cloud) as (product, source):
        await product.app.pause(queue="inbox")
        await put(source, "gone.txt")
        for text in ("Older.", "Newer."):
            await put(source, "a.txt", text)
            await go_through(source)
        await obstore.delete_async(source.bucket.objects, "gone.txt")
        await product.app.resume(queue="inbox")
        *both, gone = await until_settled(product)
        assert {row["state"] for row in both} == {"taken"}
        [shown] = await list_documents(product.app)
        assert (shown.version, await text_of(product, shown.id)) == (1, "Newer.")
        assert gone["state"] == "failed"
        assert "gone.txt does not exist in the bucket" in gone["error"]


async def test_what_cannot_be_taken_is_a_dead_letter_once(
    cloud: servers.Cloud, database_url: DatabaseUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listing(database_url, tmp_path, cloud) as (product, source):
        monkeypatch.setitem(product.settings.limits.__dict__, "bytes", 100)  # all products of the process share it
        await put(source, "large.txt", "x" * 101)
        await put(source, "a/ /b.txt")
        await put(source, "good.txt")
        await go_through(source)
        await go_through(opened(product))
        bad, good, large = await until_settled(product)
        assert "empty part" in bad["error"]
        assert "101 bytes, more than 100 (limits.bytes)" in large["error"]
        assert (good["state"], await names(product)) == ("taken", ["good.txt"])
        assert bad["repeats"] == 0


async def test_a_manifest_becomes_a_packet(cloud: servers.Cloud, database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with listing(database_url, tmp_path, cloud, makes="packet", largest="1kB") as (product, source):
        await product.app.pause(queue="inbox")
        await put(source, "case/a.txt")
        await put(source, "case/b.txt")
        await put(source, "case.json", json.dumps({"documents": ["case/b.txt", {"name": "A", "blob": "case/a.txt"}]}))
        await put(source, "broken.json", "{")
        await put(source, "long.json", " " * 2000)
        await go_through(source)
        await go_through(source)
        broken, case, long = await rows(product, "select * from penstock.inbox order by message_id")
        assert json.loads(case["payload"]) == {
            "name": "case",
            "documents": ["case/b.txt", {"name": "A", "blob": "case/a.txt"}],
        }
        assert "broken.json is not a JSON object" in broken["payload"]
        assert "sources.orders.largest" in long["payload"]
        assert case["repeats"] == 0


async def test_a_bucket_that_cannot_be_listed_says_why(
    cloud: servers.Cloud, database_url: DatabaseUrl, tmp_path: Path
) -> None:
    async with listing(database_url, tmp_path, cloud, url=f"{cloud.url[:5]}nothing-here/in") as (_, source):
        with pytest.raises(
            Transient, match=r"Listing the bucket nothing-here/in failed: the bucket does not exist\. Create it"
        ):
            await source.run()
    if cloud.url.startswith("az"):
        wrong = cloud.options.replace("account_key=", "account_key=AAAA")
        async with listing(database_url, tmp_path, cloud, options=wrong) as (_, source):
            with pytest.raises(Transient, match=r"access is denied\. Correct the credentials") as caught:
                await source.run()
            assert cloud.options.split("=", 2)[-1] not in str(caught.value)
    else:
        await asyncio.to_thread(_put_raw, cloud, "odd//key.txt")
        async with listing(database_url, tmp_path, cloud, url=f"{cloud.url}/odd") as (_, source):
            with pytest.raises(Transient, match=r"the object 'odd//key\.txt': a key with an empty part"):
                await source.run()


def _put_raw(cloud: servers.Cloud, key: str) -> None:
    """A key that obstore does not write."""
    signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/x"}
    servers._ask("PUT", f"{cloud.endpoint}/penstock/{key}", signed)


# -- without a cloud ----------------------------------------------------------------------------------------------------


class PagedBucket:
    """An S3 of its own that lists two keys on a page, and can be told to fail."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys
        self.asked: list[str] = []
        self.broken: set[str] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                status, body = self.answer(head.split(" ", 2)[1])
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()

    def answer(self, target: str) -> tuple[int, bytes]:
        asked = dict(part.partition("=")[::2] for part in target.partition("?")[2].split("&"))
        after = (asked.get("continuation-token") or asked.get("start-after", "")).replace("%2F", "/")
        self.asked.append(after)
        if after in self.broken:
            return 403, b"<Error><Code>AccessDenied</Code></Error>"
        left = [key for key in self.keys if key > after]
        time = datetime.now(UTC).isoformat()
        items = "".join(
            f'<Contents><Key>{key}</Key><Size>5</Size><LastModified>{time}</LastModified><ETag>"e"</ETag></Contents>'
            for key in left[:2]
        )
        more = f"<NextContinuationToken>{left[1]}</NextContinuationToken>" if len(left) > 2 else ""
        return 200, f"<ListBucketResult>{items}{more}</ListBucketResult>".encode()


@pytest.fixture
async def shelf(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[PagedBucket, servers.Cloud]]:
    monkeypatch.setattr(our_cloud, "RETRY", {"max_retries": 0})
    made = PagedBucket([f"p/{number}.txt" for number in range(6)])
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield made, servers.Cloud("s3://shelf", endpoint, "access_key_id=a secret_access_key=b")
    server.close()


async def test_a_listing_that_breaks_goes_on_where_it_was(
    shelf: tuple[PagedBucket, servers.Cloud], database_url: DatabaseUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, place = shelf
    chosen = {"url": "s3://shelf/p", "batch": 2, "poll_every": "1h"}
    async with listing(database_url, tmp_path, place, **chosen) as (product, source):
        await product.app.pause(queue="inbox")
        made.broken = {"p/3.txt"}
        with pytest.raises(Transient, match=r"Listing the bucket shelf/p failed: access is denied"):
            await go_through(source)
        made.broken, made.asked = set(), []
        other = opened(product)
        assert not await other.poll(), "it is not its turn yet"
        assert made.asked == []
        monkeypatch.setattr(bucket, "ABANDONED", 0)
        assert await go_through(other) == 1
        assert made.asked == ["p/3.txt"], "not from the beginning"
        assert not await source.poll(), "the listing was ended by another"
        found = await rows(product, "select message_id from penstock.inbox order by message_id")
        assert [row["message_id"] for row in found] == [f"{number}.txt@e" for number in range(6)]


async def test_workers_at_the_same_time_bring_everything_once(
    shelf: tuple[PagedBucket, servers.Cloud], database_url: DatabaseUrl, tmp_path: Path
) -> None:
    _, place = shelf
    async with listing(database_url, tmp_path, place, url="s3://shelf/p", batch=2) as (product, source):
        await product.app.pause(queue="inbox")
        await asyncio.gather(*(go_through(each) for each in (source, opened(product), opened(product))))
        found = await rows(product, "select number, repeats, conflicts from penstock.inbox")
        assert [tuple(row) for row in found] == [(1, 0, 0)] * 6


async def test_a_bucket_is_never_written_to(database_url: DatabaseUrl, tmp_path: Path) -> None:
    place = servers.Cloud("s3://shelf", "http://127.0.0.1:9", "access_key_id=a secret_access_key=b")
    async with product_with_source(
        database_url, tmp_path, type="bucket", url="s3://shelf", afterwards="move"
    ) as product:
        with pytest.raises(Trouble, match="nothing is written to a bucket"):
            opened(product)
    unknown: dict[str, Any] = {"type": "bucket", "url": "ftp://shelf", "endpoint": place.endpoint}
    async with product_with_source(database_url, tmp_path, **unknown) as product:
        with pytest.raises(PenstockError, match="is not a bucket: write s3://"):
            opened(product)
