"""One actor of an exploration: a coroutine that goes from statement to statement, when it is told to.

Its pool has one connection, and every statement on it (BEGIN, COMMIT and ROLLBACK, too) waits for its turn. `Altered` gives a
statement of the engine another text for a while.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import penstock.engine
from penstock.database import Pool, Session
from penstock.database.sql_files import Statement, Statements

T = TypeVar("T")
SAVEPOINTS = ("SAVEPOINT", "RELEASE")


@dataclass(frozen=True)
class Step:
    """One statement of one actor."""

    actor: str
    statement: str

    def __str__(self) -> str:
        return f"{self.actor:<12} {self.statement}"


class SteppedSession(Session):
    """A session whose statements wait for their turn while an actor plays.

    A statement that commits by itself, and wrote or locked something, takes two turns: between what it did and its commit
    there is time for the others, too.
    """

    actor: "Actor | None" = None

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        return await self._stepped(query, lambda: super(SteppedSession, self).execute(query, *args, timeout=timeout))

    async def fetch(self, query: str, *args: Any, timeout: float | None = None, record_class: Any = None) -> Any:
        return await self._stepped(query, lambda: super(SteppedSession, self).fetch(query, *args, timeout=timeout))

    async def fetchrow(self, query: str, *args: Any, timeout: float | None = None, record_class: Any = None) -> Any:
        return await self._stepped(query, lambda: super(SteppedSession, self).fetchrow(query, *args, timeout=timeout))

    async def fetchval(self, query: str, *args: Any, column: int = 0, timeout: float | None = None) -> Any:
        return await self._stepped(query, lambda: super(SteppedSession, self).fetchval(query, *args, timeout=timeout))

    async def _stepped(self, query: str, run: Callable[[], Awaitable[T]]) -> T:
        if self.actor is None:
            return await run()
        await self.actor.turn(name_of(query))
        if self.is_in_transaction() or query.upper().startswith("BEGIN"):
            return await run()
        await super().execute("begin")
        try:
            result = await run()
        except BaseException:
            await super().execute("rollback")
            raise
        if await super().fetchval("select pg_current_xact_id_if_assigned() is not null"):
            await self.actor.turn("its commit")
        await super().execute("commit")
        return result


@dataclass(frozen=True)
class Seat:
    """What an actor has: a pool of one stepped connection, and that connection."""

    pool: Pool
    session: SteppedSession


Play = Callable[[Seat], Awaitable[Any]]


class Actor:
    """One coroutine on its way from statement to statement."""

    def __init__(self, name: str, play: Play, seat: Seat, unstepped: Collection[str]) -> None:
        self.name = name
        self._unstepped = unstepped
        self.pid = seat.session.get_server_pid()
        self.statement = ""  # what it wants to do next
        self.halted = asyncio.Event()  # at its next statement, or at its end
        self._go = asyncio.Event()
        self._session = seat.session
        self._session.actor = self
        self.task = asyncio.ensure_future(self._play(play, seat))

    @property
    def in_transaction(self) -> bool:
        return self._session.is_in_transaction()

    @property
    def can_go(self) -> bool:
        return self.halted.is_set() and not self.task.done()

    async def _play(self, play: Play, seat: Seat) -> Any:
        try:
            return await play(seat)
        finally:
            seat.session.actor = None
            asyncio.get_running_loop().call_soon(self.halted.set)  # when the task is done, too

    async def turn(self, statement: str) -> None:
        self.statement = statement
        if self.statement in self._unstepped:
            return
        self.halted.set()
        await self._go.wait()
        self._go.clear()

    def go(self) -> Step:
        self.halted.clear()
        self._go.set()
        return Step(self.name, self.statement)


def name_of(query: str) -> str:
    """The statement's name in its file, or its first words."""
    if query.startswith(SAVEPOINTS):
        return query.split(maxsplit=1)[0]
    return _names().get(query) or " ".join(query.strip(";\n ").split()[:6])


_known: dict[str, str] = {}


def _names() -> dict[str, str]:
    if not _known:
        for path in sorted(Path(penstock.engine.__file__).parent.glob("*.sql")):
            if path.name != "gates.sql":
                _known.update({statement.text: statement.name for statement in Statements(path)})
    return _known


class Altered:
    """A statement with another text for as long as the block lasts: what would happen without this condition?"""

    def __init__(self, statements: Statements, name: str, old: str, new: str) -> None:
        original: Statement = getattr(statements, name)
        assert original.text.count(old) == 1, f"{name} has {old!r} {original.text.count(old)} times, not once"
        self._by_name = statements._by_name
        self._original = original
        self._altered = Statement(name, "")
        self._altered.parameters = original.parameters
        self._altered.text = original.text.replace(old, new)
        _names()[self._altered.text] = name

    def __enter__(self) -> None:
        self._by_name[self._original.name] = self._altered

    def __exit__(self, *_: object) -> None:
        self._by_name[self._original.name] = self._original
