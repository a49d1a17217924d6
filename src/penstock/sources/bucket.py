"""A bucket as a source: it is listed again and again, page by page, and objects that the inbox does not know are received.

One worker at a time goes through the listing. The position says how far: a page, what is new on it and the next position are
one transaction, so that after a crash another worker goes on there. The bytes are fetched by the message's job. What is in the
bucket then is what is taken: an object that was replaced since it was listed gives its newer content to both messages, and the
second of them changes nothing.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from penstock.blobs import Bucket, BucketObject, open_bucket
from penstock.documents import Overtaken, Position, SourceMessage, check_document_name
from penstock.errors import BadSetting, BadValue, NotFound
from penstock.sources.files import name_filter
from penstock.sources.source import MessageOutcome, SourceCheck, SourceContext, Trouble, poll_forever, summarise

ABANDONED = 15.0  # seconds without a page, after which another worker goes on with a listing
BEGIN: dict[str, Any] = {"after": None, "ended": 0}


class BucketSource:
    def __init__(self, context: SourceContext, bucket: Bucket) -> None:
        self.context = context
        self.bucket = bucket
        self._packets = context.chosen.makes == "packet"
        pattern = context.chosen.pattern
        self._wanted = name_filter("*.json" if self._packets and pattern == "*" else pattern)
        self._listing: AsyncIterator[list[BucketObject]] | None = None
        self._turn = -1  # at which we have moved the position ourselves
        self._seen_turn = (-1, 0.0)  # and when it was first seen
        self._pause = 0.0

    async def run(self) -> None:
        try:
            await poll_forever(self, self.context)
        finally:
            await self.close()

    async def close(self) -> None:
        self._listing = None

    async def check(self) -> SourceCheck:
        """The first page of the listing with objects that were not taken yet."""
        async for page in self.bucket.pages(None, self.context.chosen.batch):
            if news := await self._news(page):
                return summarise(news, more=len(page) == self.context.chosen.batch)
        return SourceCheck(0)

    async def tell(self, outcomes: Sequence[MessageOutcome]) -> None:
        """Outcomes are not reported: nothing is written to a bucket."""

    async def rest(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, self._pause or seconds))

    # -- the listing ----------------------------------------------------------------------------------------------------

    async def poll(self) -> bool:
        """One page of the listing; whether there are more."""
        position = await self.context.position()
        self._pause = self._wait(position)
        if self._pause:
            return False
        if self._listing is None or self._turn != position.turn:
            after = (position.value or BEGIN)["after"]
            self._listing = self.bucket.pages(after, self.context.chosen.batch)
        try:
            page = await anext(self._listing, None)
            onward = {"after": page[-1].key} if page else {"after": None, "ended": time.time()}
            news = await self._news(page or [])
            await self.context.receive(news, position=position, onward=onward)
        except BaseException as error:
            self._listing = None  # what is not received is listed again
            if isinstance(error, Overtaken):
                return False
            raise
        self._turn = position.turn + 1
        if page is None:
            self._listing = None
        return page is not None

    def _wait(self, position: Position) -> float:
        """Seconds until it is this worker's turn, without relying on the clock of another machine."""
        now, every = asyncio.get_running_loop().time(), self.context.chosen.poll_every.total_seconds()
        if self._seen_turn[0] != position.turn:
            self._seen_turn = (position.turn, now)
        state = position.value or BEGIN
        if state["after"] is None:
            return max(0.0, min(every, float(state["ended"]) + every - time.time()))
        if self._turn == position.turn:
            return 0.0
        return max(0.0, min(every, self._seen_turn[1] + ABANDONED - now))

    # -- messages -------------------------------------------------------------------------------------------------------

    async def _news(self, page: Sequence[BucketObject]) -> list[SourceMessage]:
        """The objects of a page that are not in the inbox. Empty objects stand for folders, and are left out."""
        wanted = [each for each in page if each.size and self._wanted(each.key.rpartition("/")[2])]
        if not self._packets:
            return await self.context.news([self._message(each) for each in wanted])
        by_id = {_id_of(each): each for each in wanted}
        found = [await self._packet(by_id[each]) for each in await self.context.unknown(list(by_id))]
        return [message for message in found if message is not None]

    def _message(self, listed: BucketObject) -> SourceMessage:
        """With its time: content that was here before, and has come back, is taken again."""
        payload = {
            "name": listed.key,
            "blob": listed.key,
            "etag": listed.etag,
            "size": listed.size,
            "modified": listed.modified.isoformat(),
        }
        return SourceMessage(_id_of(listed), payload, poison=self._refusal(listed, self.context.settings.limits.bytes))

    async def _packet(self, listed: BucketObject) -> SourceMessage | None:
        """A packet by the list of keys in the object itself; None if the object is gone."""
        if reason := self._refusal(listed, int(self.context.chosen.largest)):
            return SourceMessage(_id_of(listed), {"name": listed.key}, poison=reason)
        try:
            content = b"".join([piece async for piece in self.bucket.read(listed.key)])
            asked = json.loads(content)
        except NotFound:
            return None
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict):
            reason = f"{listed.key} is not a JSON object with a list of documents: correct the program that writes it."
            return SourceMessage(_id_of(listed), {"name": listed.key}, poison=reason)
        return SourceMessage(_id_of(listed), {"name": listed.key.removesuffix(".json"), **asked})

    def _refusal(self, listed: BucketObject, most: int) -> str:
        try:
            check_document_name(listed.key)
        except BadValue as error:
            return f"The object cannot be taken under its key. {error}"
        if listed.size > most:
            limit = f"sources.{self.context.name}.largest" if self._packets else "limits.bytes"
            return (
                f"{listed.key} has {listed.size:,} bytes, more than {most:,} ({limit}): split it, or raise the limit."
            )
        return ""


def _id_of(listed: BucketObject) -> str:
    return f"{listed.key}@{listed.etag or listed.modified.isoformat()}"


def open_source(context: SourceContext) -> BucketSource:
    """The bucket of the settings; nothing is read yet."""
    chosen = context.chosen
    if chosen.url is None:
        raise BadSetting(f"sources.{context.name}.url is not set: a bucket needs it.")
    if chosen.afterwards == "move":
        raise Trouble(
            f"sources.{context.name}.afterwards is move, but nothing is written to a bucket: remove it, or set it to leave."
        )
    return BucketSource(context, open_bucket(chosen.url.get_secret_value(), chosen.endpoint, chosen.options))
