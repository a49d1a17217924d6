"""Manners towards web sites: their robots.txt, and whose turn it is to ask.

A host is asked by the whole fleet at most once per delay. Who wants to ask takes the next time by one statement, which moves it
on for all others, and then waits for it without a connection. robots.txt is read once and kept with the host: 4xx means that
there is none, and everything is allowed; a server that does not answer or is in trouble allows nothing for now, and whoever
asked is tried again by the engine. The SQL is in hosts.sql.
"""

import asyncio
from collections import OrderedDict
from datetime import datetime, timedelta
from functools import partial

from penstock.database import statements
from penstock.engine import Context, Penstock
from penstock.errors import FetchFailed, FetchRefused, RateLimited
from penstock.fetch import Fetcher
from penstock.knowledge.robots import MOST_BYTES, Rules, read_robots

sql = statements(__file__)

PATIENCE = timedelta(seconds=15)  # that a page waits for its turn; a longer wait is spent without a slot
GOOD_FOR = timedelta(hours=24)  # robots.txt, as the standard has it
FRESH_FOR = timedelta(minutes=10)  # to a crawl that begins
ROBOTS_TIMEOUT = 15.0  # seconds
ANY_SIZE = 2**62  # what is behind the first bytes of robots.txt is not read
REMEMBERED = 64  # rules of so many hosts


class Hosts:
    """What this process knows of web sites."""

    def __init__(self, app: Penstock, fetcher: Fetcher) -> None:
        self._app = app
        self._fetcher = fetcher
        self._chosen = app.settings.crawl
        self._read: OrderedDict[str, tuple[datetime, Rules]] = OrderedDict()

    def delay(self, rules: Rules) -> timedelta:
        """Between two requests: ours, or what the site asks for if that is longer, within reason."""
        asked = min(timedelta(seconds=rules.delay), self._chosen.longest_delay)
        return max(self._chosen.delay, asked)

    async def take_turn(self, ctx: Context, origin: str, rules: Rules, patience: timedelta = PATIENCE) -> None:
        """Wait until the host may be asked; RateLimited, which is not charged, when that is too long for a slot."""
        async with ctx.write() as tx:
            wait = await sql.take_turn.value(tx, origin=origin, delay=self.delay(rules), patience=patience)
        if wait is None:
            raise RateLimited(f"{origin} is asked by others until then; every host has its pace.", retry_after=patience)
        if wait > timedelta(0):
            await asyncio.sleep(wait.total_seconds())

    async def hold_off(self, ctx: Context, origin: str, pause: timedelta) -> None:
        """The host has asked for patience: nobody asks it before."""
        async with ctx.write() as tx:
            await sql.hold_off.run(tx, origin=origin, pause=pause)

    async def rules(self, ctx: Context, origin: str, fresh_for: timedelta = GOOD_FOR) -> Rules:
        """What robots.txt of this origin lets us do; FetchFailed while it cannot be read."""
        kept = await self._app.database.pool.repeat(
            partial(sql.find_robots.first, origin=origin, fresh_for=fresh_for, good_for=GOOD_FOR)
        )
        if kept is not None and kept["fresh"]:
            return self._parsed(origin, kept["robots_at"], kept["robots"])
        try:
            text = await self._fetch_robots(ctx, origin)
        except FetchFailed as error:
            if kept is not None:
                return self._parsed(origin, kept["robots_at"], kept["robots"])
            raise FetchFailed(
                f"{str(error).rstrip('.')}: as long as robots.txt cannot be read, nothing of {origin} is asked for.",
                retry_after=error.retry_after,
            ) from error
        async with ctx.write() as tx:
            await sql.keep_robots.run(tx, origin=origin, robots=text)
        return read_robots(text, self._chosen.token, origin)

    def _parsed(self, origin: str, at: datetime, text: str) -> Rules:
        known = self._read.get(origin)
        if known is None or known[0] != at:
            known = self._read[origin] = (at, read_robots(text, self._chosen.token, origin))
            while len(self._read) > REMEMBERED:
                self._read.popitem(last=False)
        return known[1]

    async def _fetch_robots(self, ctx: Context, origin: str) -> str:
        await self.take_turn(ctx, origin, Rules())
        raw = bytearray()
        try:
            async with asyncio.timeout(ROBOTS_TIMEOUT):
                wanted = self._fetcher.open(f"{origin}/robots.txt", most=ANY_SIZE, user_agent=self._chosen.user_agent)
                async with wanted as response:
                    async for piece in response.pieces():
                        raw += piece
                        if len(raw) >= MOST_BYTES:
                            break
        except TimeoutError:
            raise FetchFailed(f"{origin}/robots.txt took too long.") from None
        except FetchRefused as refused:
            if refused.answered is None:  # not the server has said so: it may not be asked at all
                raise
            return ""  # 4xx: there is none
        text = bytes(raw[:MOST_BYTES]).decode("utf-8-sig", "replace")
        return text.replace("\0", "")
