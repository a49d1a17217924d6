"""Crawl politeness: robots.txt and per-host rate limiting.

The whole fleet requests a host at most once per delay: one statement reserves the next time, and the job waits for it without a
connection. robots.txt is read by Protego as RFC 9309 says (the group of our name, else that of `*`; the longest match wins)
and kept with the host. 4xx means that there is none, and everything is allowed; a server that does not answer or fails allows
nothing for now, and the engine retries the job.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from protego import Protego

from penstock.database import Session, statements
from penstock.engine import Context, Penstock
from penstock.errors import FetchFailed, FetchRefused, RateLimited
from penstock.fetch import Fetcher
from penstock.knowledge.crawl.urls import NoPage, canonical
from penstock.text import storable

sql = statements(__file__)

PATIENCE = timedelta(seconds=15)  # that a page waits in its slot; for a longer wait the job is requeued
GOOD_FOR = timedelta(hours=24)  # robots.txt, as the standard says
FRESH_FOR = timedelta(minutes=10)  # robots.txt, for a crawl that begins
ROBOTS_TIMEOUT = 15.0  # seconds
ANY_SIZE = 2**62  # bytes of robots.txt after MOST_BYTES are not read
REMEMBERED = 64  # hosts whose rules are cached
MOST_BYTES = 500 * 1024  # the least that the standard asks for
MOST_RULES = 2_000  # lines of the groups that can apply to us: each link is compared with all of them
MOST_SITEMAPS = 20
LONGEST_DELAY = 1_000_000.0  # seconds
_LINE = re.compile(r"\s*([A-Za-z-]+)\s*:\s*([^#]*)")
_TOKEN = re.compile(r"[A-Za-z_-]+|\*")


@dataclass(frozen=True, slots=True)
class RobotsRules:
    parsed: Protego = field(default_factory=Protego)
    token: str = ""
    sitemaps: tuple[str, ...] = ()

    @property
    def delay(self) -> float:
        """The seconds between two requests that the site asks for."""
        return min(self.parsed.crawl_delay(self.token) or 0.0, LONGEST_DELAY)

    def allows(self, url: str) -> bool:
        return self.parsed.can_fetch(url, self.token)


def read_robots(text: str, token: str, origin: str) -> RobotsRules:
    """The rules for us, whose name is `token`, in lower case."""
    parsed = Protego.parse("\n".join(_applicable(text[:MOST_BYTES].splitlines(), token)))
    return RobotsRules(parsed, token, tuple(_addresses(parsed.sitemaps, origin)))


def _applicable(lines: Iterable[str], token: str) -> Iterator[str]:
    """Lines of the groups for us and for all, and sitemaps, which are in no group."""
    ours, in_head, rules = False, False, 0  # lines of agents that follow each other are one group
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        key, value = found[1].lower(), found[2].strip()
        if key == "user-agent":
            named = _TOKEN.match(value)
            is_ours = named is not None and named[0].lower() in {token, "*"}
            ours, in_head = is_ours or (in_head and ours), True
            if named and is_ours:
                yield f"user-agent: {named[0]}"
        elif key == "sitemap":
            yield f"sitemap: {value}"
        elif key in {"allow", "disallow", "crawl-delay"}:
            in_head = False
            if ours and (rules := rules + 1) <= MOST_RULES:
                slash = "" if key == "crawl-delay" or value.startswith(("/", "*")) or not value else "/"
                yield f"{key}: {slash}{value}"


def parted(urls: Iterable[str], origin: str, rules: RobotsRules) -> tuple[list[str], list[str]]:
    """Addresses that robots.txt allows, and those that it bars. Those of other hosts are checked when they are fetched."""
    allowed: list[str] = []
    barred: list[str] = []
    for url in urls:
        (barred if url.startswith(f"{origin}/") and not rules.allows(url) else allowed).append(url)
    return allowed, barred


def _addresses(texts: Iterable[str], origin: str) -> list[str]:
    found: list[str] = []
    for text in texts:
        try:
            found.append(canonical(text, f"{origin}/"))
        except NoPage:
            continue
    return list(dict.fromkeys(found))[:MOST_SITEMAPS]


class Politeness:
    """The robots rules and rate limits of web sites, for this process."""

    def __init__(self, app: Penstock, fetcher: Fetcher) -> None:
        self._app = app
        self._fetcher = fetcher
        self._chosen = app.settings.crawl
        self._read: OrderedDict[str, tuple[datetime, RobotsRules]] = OrderedDict()

    def delay(self, rules: RobotsRules) -> timedelta:
        """The delay between two requests: ours, or that of the site if it is longer, up to a limit."""
        asked = min(timedelta(seconds=rules.delay), self._chosen.longest_delay)
        return max(self._chosen.delay, asked)

    async def take_turn(self, ctx: Context, origin: str, rules: RobotsRules, patience: timedelta = PATIENCE) -> None:
        """Wait until the host may be requested; RateLimited, which is not charged, when that is too long for a slot."""
        async with ctx.write() as tx:
            wait = await sql.take_turn.value(tx, origin=origin, delay=self.delay(rules), patience=patience)
        if wait is None:
            raise RateLimited(
                f"{origin} is reserved for other requests until then: every host has its rate limit.",
                retry_after=patience,
            )
        if wait > timedelta(0):
            await asyncio.sleep(wait.total_seconds())

    async def hold_off(self, ctx: Context, origin: str, pause: timedelta) -> None:
        """Let no worker request the host before the pause is over, as it has asked."""
        async with ctx.write() as tx:
            await sql.hold_off.run(tx, origin=origin, pause=pause)

    async def rules(self, ctx: Context, origin: str, fresh_for: timedelta = GOOD_FOR) -> RobotsRules:
        """The rules of robots.txt of this origin; FetchFailed while it cannot be read."""
        kept = await self._app.database.pool.repeat(
            sql.find_robots.first, origin=origin, fresh_for=fresh_for, good_for=GOOD_FOR
        )
        if kept is not None and kept["fresh"]:
            return self._parsed(origin, kept["robots_at"], kept["robots"])
        try:
            text = await self._fetch_robots(ctx, origin)
        except FetchFailed as error:
            if kept is not None:
                return self._parsed(origin, kept["robots_at"], kept["robots"])
            raise FetchFailed(
                f"{str(error).rstrip('.')}: as long as robots.txt cannot be read, no page of {origin} is fetched.",
                retry_after=error.retry_after,
            ) from error
        async with ctx.write() as tx:
            await sql.keep_robots.run(tx, origin=origin, robots=text)
        return read_robots(text, self._chosen.token, origin)

    def _parsed(self, origin: str, at: datetime, text: str) -> RobotsRules:
        known = self._read.get(origin)
        if known is None or known[0] != at:
            known = self._read[origin] = (at, read_robots(text, self._chosen.token, origin))
            while len(self._read) > REMEMBERED:
                self._read.popitem(last=False)
        return known[1]

    async def _fetch_robots(self, ctx: Context, origin: str) -> str:
        await self.take_turn(ctx, origin, RobotsRules())
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
            if refused.answered is None:  # refused on our side: the address must not be requested at all
                raise
            return ""  # 4xx: there is none
        return storable(bytes(raw[:MOST_BYTES]).decode("utf-8-sig", "replace"), "")


async def find_next_turn(session: Session, origin: str) -> timedelta | None:
    """The time until a host may be requested again; None for one that never was."""
    wait: timedelta | None = await sql.find_next_turn.value(session, origin=origin)
    return wait


async def sweep_hosts(session: Session, older: timedelta) -> None:
    """Delete hosts that were not requested for so long."""
    await sql.sweep_hosts.run(session, older=older, most=1_000)
