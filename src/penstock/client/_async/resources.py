"""The resources of a client other than documents and packets: one class for each, `client.collections` to `client.keys`."""

import builtins
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from penstock.client._async.transport import AsyncResource
from penstock.client.errors import NotFound
from penstock.client.fleet_models import (
    Cause,
    ChangedJobs,
    DeadJob,
    Finding,
    InboxMessage,
    Job,
    Key,
    Lane,
    LimitState,
    Pause,
    Redriving,
    Run,
    Schedule,
    Sent,
    Source,
    Worker,
)
from penstock.client.knowledge_models import (
    BegunCrawl,
    Crawl,
    CrawlPage,
    Entity,
    Extraction,
    Fact,
    FoundFacts,
    Memo,
    PostedMessages,
    Stream,
    StreamMessage,
)
from penstock.client.models import Collection, CollectionDeletion, Why, decode, decode_list
from penstock.client.transport import sign_message
from penstock.client.upload_body import content_of

Setting = str | int | None  # model, chunk_size, chunk_overlap, ocr_language, search_language, index


class AsyncCollections(AsyncResource):
    """Collections by name."""

    async def create(self, name: str, **settings: Setting) -> Collection:
        """Create one; NameTaken if the name is taken. Settings: model, chunk_size, chunk_overlap, …"""
        return await self._ask(Collection, "POST", "/api/collections", body={"name": name, **settings})

    def list(self, *, page: int = 100) -> AsyncIterator[Collection]:
        """All, by name."""
        return self._transport.pages(Collection, "/api/collections", query={"limit": page})

    async def show(self, name: str) -> Collection:
        """One, with its documents counted by status."""
        return await self._ask(Collection, "GET", "/api/collections/{collection}", at={"collection": name})

    async def change(self, name: str, *, new_name: str | None = None, **settings: Setting) -> Collection:
        """Rename it, or change settings; what is not named stays."""
        wish = {key: value for key, value in {"name": new_name, **settings}.items() if value is not None}
        return await self._ask(Collection, "PATCH", "/api/collections/{collection}", at={"collection": name}, body=wish)

    async def delete(self, name: str, *, now: bool | None = None) -> CollectionDeletion | None:
        """Delete it with all of its documents. It can be restored until `restorable_until`; not at all with `now`.

        None when the answer was lost, and a repetition found it deleted.
        """
        try:
            gone = await self._transport.ask(
                "DELETE", "/api/collections/{collection}", at={"collection": name}, query={"now": now}
            )
        except NotFound as error:
            if not error.repeated:
                raise
            return None
        return decode(CollectionDeletion, gone)

    async def restore(self, name: str) -> Collection:
        """Bring back a deleted one, with the documents that were deleted with it."""
        at = {"collection": name}
        return decode(Collection, await self._transport.ask("POST", "/api/collections/{collection}/restore", at=at))


class AsyncCrawls(AsyncResource):
    """Crawls by id."""

    async def begin(
        self,
        url: str,
        collection: str,
        *,
        depth: int | None = None,
        max_pages: int | None = None,
        hosts: Sequence[str] = (),
    ) -> BegunCrawl:
        """Start a crawl; an equal call while it runs returns the same one."""
        wish = {"url": url, "collection": collection, "depth": depth, "max_pages": max_pages, "hosts": list(hosts)}
        return await self._ask(BegunCrawl, "POST", "/api/crawls", body=wish, again=True)

    def list(self, *, collection: str | None = None, state: str | None = None, page: int = 100) -> AsyncIterator[Crawl]:
        """Crawls by id; states: running, done, failed, stopped."""
        wish = {"collection": collection, "state": state, "limit": page}
        return self._transport.pages(Crawl, "/api/crawls", query=wish)

    async def show(self, id: int) -> Crawl:  # noqa: A002
        """One crawl, with its pages counted."""
        return await self._ask(Crawl, "GET", "/api/crawls/{id}", at={"id": id})

    def pages(self, id: int, *, state: str | None = None, page: int = 100) -> AsyncIterator[CrawlPage]:  # noqa: A002
        """Its pages in the order in which they were found; states: waiting, kept, skipped, failed."""
        wish = {"state": state, "limit": page}
        return self._transport.pages(CrawlPage, "/api/crawls/{id}/pages", at={"id": id}, query=wish)

    async def why(self, id: int) -> Why:  # noqa: A002
        """Explain its state: one sentence, and the evidence."""
        return await self._ask(Why, "GET", "/api/crawls/{id}/why", at={"id": id})

    async def stop(self, id: int) -> Crawl:  # noqa: A002
        """Stop it; its documents stay."""
        return await self._ask(Crawl, "POST", "/api/crawls/{id}/stop", at={"id": id})


class AsyncFacts(AsyncResource):
    """Facts of documents and collections."""

    async def search(
        self, question: str, *, collection: str | Sequence[str] | None = None, k: int = 10, offset: int = 0
    ) -> FoundFacts:
        """The facts that answer best, each with its quote and the passage around it."""
        wish = {
            "q": question,
            "collection": collection if collection is None or isinstance(collection, str) else list(collection),
            "k": k,
            "offset": offset,
        }
        return await self._ask(FoundFacts, "GET", "/api/facts/search", query=wish)

    def list(self, document: int, *, page: int = 100) -> AsyncIterator[Fact]:
        """The facts of a document."""
        return self._transport.pages(Fact, "/api/documents/{id}/facts", at={"id": document}, query={"limit": page})

    def entities(self, collection: str, *, type: str | None = None, page: int = 100) -> AsyncIterator[Entity]:  # noqa: A002
        """The entities that the facts of a collection are about."""
        return self._transport.pages(
            Entity,
            "/api/collections/{collection}/entities",
            at={"collection": collection},
            query={"type": type, "limit": page},
        )

    async def extract(self, collection: str, *, again: bool = False, keep: bool | None = None) -> Extraction:
        """Extract facts; `keep`: from new versions, too, from now on. Unavailable if the server has no language model."""
        return await self._ask(
            Extraction,
            "POST",
            "/api/collections/{collection}/extract",
            at={"collection": collection},
            body={"again": again, "keep": keep},
        )

    async def status(self, collection: str) -> Extraction:
        """The progress of a collection."""
        return await self._ask(
            Extraction, "GET", "/api/collections/{collection}/extraction", at={"collection": collection}
        )


class AsyncStreams(AsyncResource):
    """Streams by name."""

    async def post(self, stream: str, messages: Sequence[Mapping[str, Any]]) -> PostedMessages:
        """Add messages in their order: `text`, and `message_id`, `author`, `at`. A request that is sent again adds nothing.

        One without a message_id gets one here. QueueFull while too many of the stream wait.
        """
        body = {"messages": [{"message_id": os.urandom(16).hex(), **message} for message in messages]}
        return await self._ask(
            PostedMessages,
            "POST",
            "/api/streams/{stream}/messages",
            at={"stream": stream},
            headers={"Content-Type": "application/json"},
            content=content_of(json.dumps(body, default=str).encode()),
            again=True,
        )

    def list(self, *, page: int = 100) -> AsyncIterator[Stream]:
        """Streams by name."""
        return self._transport.pages(Stream, "/api/streams", query={"limit": page})

    async def show(self, stream: str) -> Stream:
        """One stream; `why` explains the state of its next batch."""
        return await self._ask(Stream, "GET", "/api/streams/{stream}", at={"stream": stream})

    def messages(self, stream: str, *, page: int = 100) -> AsyncIterator[StreamMessage]:
        """Its messages in order."""
        return self._transport.pages(
            StreamMessage, "/api/streams/{stream}/messages", at={"stream": stream}, query={"limit": page}
        )

    async def delete(self, stream: str) -> None:
        """Delete it with its messages and memos."""
        await self._transport.ask("DELETE", "/api/streams/{stream}", at={"stream": stream})

    async def delete_message(self, stream: str, number: int) -> None:
        """Delete a message, and the memos that were made of it alone."""
        where = {"stream": stream, "number": number}
        await self._transport.ask("DELETE", "/api/streams/{stream}/messages/{number}", at=where)

    def memos(self, stream: str | None = None, *, every: bool = False, page: int = 100) -> AsyncIterator[Memo]:
        """Memos by id; `every`: also those that were merged or superseded."""
        wish = {"stream": stream, "every": every or None, "limit": page}
        return self._transport.pages(Memo, "/api/memos", query=wish)

    async def search(
        self, question: str, *, stream: str | None = None, k: int = 10, every: bool = False
    ) -> builtins.list[Memo]:
        """The memos that answer best."""
        wish = {"q": question, "stream": stream, "k": k, "every": every or None}
        found = await self._transport.ask("GET", "/api/memos", query=wish)
        return decode_list(Memo, found.get("items") if isinstance(found, Mapping) else None)


class AsyncInbox(AsyncResource):
    """Sources by name, messages by id. A message to a webhook is signed, and needs no key."""

    async def send(self, source: str, message: Mapping[str, Any], *, secret: str, message_id: str = "") -> Sent:
        """Send a message. Its id is `message_id`, or is in its body; sent again, it changes nothing."""
        if not message_id.isascii() or not message_id.isprintable():
            raise ValueError("message_id is sent as a header, which is ASCII: put such a number into the message.")
        body = json.dumps(message).encode()
        return await self._ask(
            Sent,
            "POST",
            "/api/inbox/{source}",
            at={"source": source},
            headers={**sign_message(secret, message_id, body), "Content-Type": "application/json"},
            content=content_of(body),
            again=True,
        )

    async def sources(self) -> builtins.list[Source]:
        """The sources of the tenant."""
        return await self._ask_list(Source, "/api/sources")

    def messages(
        self, *, source: str | None = None, state: str | None = None, page: int = 100
    ) -> AsyncIterator[InboxMessage]:
        """Messages by id; states: waiting, taken, failed."""
        wish = {"source": source, "state": state, "limit": page}
        return self._transport.pages(InboxMessage, "/api/messages", query=wish)

    async def retry(self, id: int) -> InboxMessage:  # noqa: A002
        """Retry a failed message."""
        return await self._ask(InboxMessage, "POST", "/api/messages/{message}/retry", at={"message": id})


class AsyncJobs(AsyncResource):
    """Jobs by id."""

    async def why(self, id: int) -> Why:  # noqa: A002
        """Explain its state: one sentence, and the evidence."""
        return await self._ask(Why, "GET", "/api/jobs/{job}/why", at={"job": id})

    def list(
        self,
        *,
        state: str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        fairness_key: str | None = None,
        page: int = 100,
    ) -> AsyncIterator[Job]:
        """The live ones; dead ones only with state="dead"."""
        wish = {"state": state, "kind": kind, "queue": queue, "fairness_key": fairness_key, "limit": page}
        return self._transport.pages(Job, "/api/jobs", query=wish)

    async def show(self, id: int) -> Job:  # noqa: A002
        """One, live or from the history, with its attempts and an explanation of its state."""
        return await self._ask(Job, "GET", "/api/jobs/{job}", at={"job": id})

    async def cancel(self, id: int, *, reason: str = "cancelled by hand") -> ChangedJobs:  # noqa: A002
        """Cancel it and its children; a running one stops with the next heartbeat of its worker."""
        return await self._ask(ChangedJobs, "POST", "/api/jobs/{job}/cancel", at={"job": id}, query={"reason": reason})

    async def lanes(self) -> builtins.list[Lane]:
        """The lanes with ready jobs, the oldest first."""
        return await self._ask_list(Lane, "/api/lanes")

    async def causes(self, *, most: int = 100) -> builtins.list[Cause]:
        """The causes of dead letters, the most frequent first."""
        return await self._ask_list(Cause, "/api/dead", query={"limit": most})

    async def dead(self, fingerprint: str, *, most: int = 100) -> builtins.list[DeadJob]:
        """The dead jobs of one cause."""
        return await self._ask_list(
            DeadJob, "/api/dead/{fingerprint}", at={"fingerprint": fingerprint}, query={"limit": most}
        )

    async def redrive(
        self,
        *,
        fingerprint: str | None = None,
        kind: str | None = None,
        ids: Sequence[int] = (),
        force: bool = False,
    ) -> Redriving:
        """Start a job that retries one, then ten, then the rest, until the same failure returns. It does not wait."""
        wish = {"ids": [*ids], "fingerprint": fingerprint, "kind": kind, "force": force}
        return await self._ask(Redriving, "POST", "/api/dead/redrive", body=wish)

    async def discard(
        self, *, reason: str, fingerprint: str | None = None, kind: str | None = None, ids: Sequence[int] = ()
    ) -> ChangedJobs:
        """Discard dead jobs; the history keeps the reason."""
        wish = {"ids": [*ids], "fingerprint": fingerprint, "kind": kind, "reason": reason}
        return await self._ask(ChangedJobs, "POST", "/api/dead/discard", body=wish)

    async def pauses(self) -> builtins.list[Pause]:
        """The pauses."""
        return await self._ask_list(Pause, "/api/pauses")

    async def pause(self, what: str, name: str, *, reason: str = "paused by hand") -> Pause:
        """Claim no new job of a queue, kind or fairness key until it is resumed."""
        wish = {"what": what, "name": name, "reason": reason}
        return await self._ask(Pause, "POST", "/api/pauses", body=wish)

    async def resume(self, what: str, name: str) -> None:
        """End a pause."""
        await self._transport.ask("DELETE", "/api/pauses/{what}/{name}", at={"what": what, "name": name})


class AsyncFleet(AsyncResource):
    """Workers, limits, schedules and findings. Operators only."""

    async def workers(self, *, gone_within: int = 3600) -> builtins.list[Worker]:
        """The live workers, and those that left within so many seconds."""
        return await self._ask_list(Worker, "/api/workers", query={"gone_within": gone_within})

    async def limits(self) -> builtins.list[LimitState]:
        """The limits and their breakers."""
        return await self._ask_list(LimitState, "/api/limits")

    async def close_breaker(self, limit: str) -> LimitState:
        """Let calls through again without waiting for a probe."""
        return await self._ask(LimitState, "POST", "/api/limits/{limit}/close", at={"limit": limit})

    async def findings(self) -> builtins.list[Finding]:
        """The findings of `penstock doctor`, the most urgent first."""
        return await self._ask_list(Finding, "/api/findings")

    async def acknowledge(self, finding: str, *, seconds: int = 86_400) -> builtins.list[Finding]:
        """Acknowledge the findings of a name: not a problem until they change, or until the time is over."""
        answer = await self._transport.ask(
            "POST", "/api/findings/{finding}/acknowledge", at={"finding": finding}, query={"seconds": seconds}
        )
        return decode_list(Finding, answer)

    async def schedules(self) -> builtins.list[Schedule]:
        """The schedules."""
        return await self._ask_list(Schedule, "/api/schedules")

    async def run_schedule(self, name: str, *, fairness_key: str | None = None) -> Run:
        """Enqueue one job of it now."""
        at = {"schedule": name}
        return await self._ask(
            Run, "POST", "/api/schedules/{schedule}/run", at=at, query={"fairness_key": fairness_key}
        )

    async def pause_schedule(self, name: str, *, fairness_key: str | None = None) -> Schedule:
        """Stop firing until it is resumed."""
        at = {"schedule": name}
        return await self._ask(
            Schedule, "POST", "/api/schedules/{schedule}/pause", at=at, query={"fairness_key": fairness_key}
        )

    async def resume_schedule(self, name: str, *, fairness_key: str | None = None) -> Schedule:
        """Resume with the next tick."""
        at = {"schedule": name}
        return await self._ask(
            Schedule, "POST", "/api/schedules/{schedule}/resume", at=at, query={"fairness_key": fairness_key}
        )

    async def remove_schedule(self, name: str, *, fairness_key: str | None = None) -> None:
        """Remove one that was added by the API or is retired."""
        await self._transport.ask(
            "DELETE", "/api/schedules/{schedule}", at={"schedule": name}, query={"fairness_key": fairness_key}
        )


class AsyncKeys(AsyncResource):
    """Keys by id."""

    async def create(
        self,
        name: str,
        *,
        scopes: Sequence[str] = ("read",),
        collections: Sequence[str] | None = None,
        expires_in: float | None = None,
    ) -> Key:
        """Create a key; `key` of the result is the secret, which is shown only once. Scopes: read, write, admin."""
        wish = {
            "name": name,
            "scopes": [*scopes],
            "collections": None if collections is None else [*collections],
            "expires_in": expires_in,
        }
        return await self._ask(Key, "POST", "/api/keys", body=wish)

    def list(self, *, page: int = 100) -> AsyncIterator[Key]:
        """All keys, without their secrets."""
        return self._transport.pages(Key, "/api/keys", query={"limit": page})

    async def revoke(self, id: int) -> Key:  # noqa: A002
        """Revoke it: it stops working within a second."""
        return await self._ask(Key, "DELETE", "/api/keys/{key}", at={"key": id})
