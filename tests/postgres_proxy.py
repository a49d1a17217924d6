"""A TCP proxy in front of PostgreSQL that breaks connections at chosen moments.

It understands the protocol far enough to know which statement is about to run. A rule is asked for each of them: cut
the connection *before* the server sees it, or *after* the server has done it and before the client hears of it; to the
client both look alike. The proxy can also cut everything, let nothing pass, or refuse.

    async with PostgresProxy(database_url) as proxy:
        proxy.rule = lambda asked: Cut.AFTER if asked.is_commit and asked.within("insert into orders") else None
        await asyncpg.connect(proxy.url.reveal())
"""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, quote, urlsplit

from penstock.settings import DatabaseUrl

HEADER = 5  # of a message: its type and its length, which counts itself


class Cut(Enum):
    """When a connection is cut, seen from the server."""

    BEFORE = "before the server saw it"
    AFTER = "after the server had done it"


@dataclass(frozen=True)
class Asked:
    """A statement that is about to run, and those that ran before it in the same transaction."""

    statement: str
    before: list[str]

    @property
    def is_commit(self) -> bool:
        return self.statement.upper().startswith("COMMIT")

    def within(self, text: str) -> bool:
        return any(text in statement for statement in (*self.before, self.statement))


Rule = Callable[[Asked], Cut | None]


class Link:
    """One client's connection, and ours to the server for it."""

    def __init__(self, proxy: "PostgresProxy", client: StreamWriter, server: StreamWriter) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._statements: dict[bytes, str] = {}  # by the name that Parse gave
        self._portals: dict[bytes, str] = {}
        self._ran: list[str] = []  # in the transaction that is open
        self._mute = False  # the answer that comes next is not for the client

    def cut(self) -> None:
        """As a reset: neither side learns anything more."""
        self._client.transport.abort()
        self._server.transport.abort()

    async def carry(self, client: StreamReader, server: StreamReader) -> None:
        """Until one side ends."""
        ways = [asyncio.create_task(self._ask(client)), asyncio.create_task(self._answer(server))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.cut()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _ask(self, client: StreamReader) -> None:
        length = await client.readexactly(4)  # the first message has no type
        await self._pass(self._server, length + await client.readexactly(int.from_bytes(length) - 4))
        while True:
            kind, message = await _read(client)
            statement = self._statement(kind, message[HEADER:])
            moment = self._proxy.judge(Asked(statement, self._ran)) if statement is not None else None
            if moment is Cut.BEFORE:
                return
            if moment is Cut.AFTER:
                self._mute = True
            if statement is not None:
                self._ran.append(statement)
            await self._pass(self._server, message)

    async def _answer(self, server: StreamReader) -> None:
        while True:
            kind, message = await _read(server)
            if kind == b"Z":  # ready for the next one: what was asked is done
                if self._mute:
                    return
                if message[HEADER:] == b"I":  # and committed or rolled back
                    self._ran = []
            if not self._mute:
                await self._pass(self._client, message)

    async def _pass(self, to: StreamWriter, message: bytes) -> None:
        await self._proxy.flowing.wait()
        to.write(message)
        await to.drain()

    def _statement(self, kind: bytes, body: bytes) -> str | None:
        """The text that this message makes the server run."""
        match kind:
            case b"Q":
                return body.rstrip(b"\0").decode()
            case b"P":
                name, query, _ = body.split(b"\0", 2)
                self._statements[name] = query.decode()
            case b"B":
                portal, name, _ = body.split(b"\0", 2)
                self._portals[portal] = self._statements[name]
            case b"E":
                return self._portals[body.split(b"\0", 1)[0]]
        return None


class PostgresProxy:
    """Listens on a loopback port for as long as the block lasts."""

    def __init__(self, upstream: DatabaseUrl) -> None:
        address = urlsplit(upstream.reveal())
        query = parse_qs(address.query)
        self._socket = f"{query['host'][0]}/.s.PGSQL.{query['port'][0]}"
        self._who = f"{address.username}:{quote(address.password or '', safe='')}"
        self._database = address.path
        self._links: set[Link] = set()
        self._listener: asyncio.Server | None = None
        self._refusing = False
        self.rule: Rule = lambda _: None
        self.cuts: Counter[Cut] = Counter()
        self.flowing = asyncio.Event()
        self.flowing.set()

    @property
    def url(self) -> DatabaseUrl:
        assert self._listener is not None
        port = self._listener.sockets[0].getsockname()[1]
        return DatabaseUrl(f"postgresql://{self._who}@127.0.0.1:{port}{self._database}?sslmode=disable")

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        self._refusing = True
        self.flowing.set()
        self.cut_all()
        await self._listener.wait_closed()

    def judge(self, asked: Asked) -> Cut | None:
        moment = self.rule(asked)
        if moment is not None:
            self.cuts[moment] += 1
        return moment

    def cut_all(self) -> None:
        for link in list(self._links):
            link.cut()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Connections stay, and nothing passes: a frozen server, or a firewall that drops."""
        self.flowing.clear()
        try:
            yield
        finally:
            self.flowing.set()

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Everything is cut, and nobody gets in: the server is away."""
        self._refusing = True
        self.cut_all()
        try:
            yield
        finally:
            self._refusing = False

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        with suppress(OSError):
            server_reader, server_writer = await asyncio.open_unix_connection(self._socket)
            link = Link(self, writer, server_writer)
            self._links.add(link)
            try:
                await link.carry(reader, server_reader)
            finally:
                self._links.discard(link)


async def _read(stream: StreamReader) -> tuple[bytes, bytes]:
    """The next message's type, and all of it."""
    header = await stream.readexactly(HEADER)
    return header[:1], header + await stream.readexactly(int.from_bytes(header[1:]) - 4)
