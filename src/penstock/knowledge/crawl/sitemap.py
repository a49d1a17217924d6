"""The pages that a site lists itself: the sitemaps of its robots.txt, else /sitemap.xml, and those that an index names.

Sitemaps are hints: one that cannot be read is left out. Each is read in a sandbox, in bounded time and size.
"""

import asyncio
import os
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from penstock.engine import Context
from penstock.errors import FetchFailed, FetchRefused, ResourceLimit, Unreadable
from penstock.extraction import SandboxPool
from penstock.fetch import Fetcher
from penstock.knowledge.crawl.page import Site
from penstock.knowledge.crawl.politeness import Politeness, RobotsRules
from penstock.knowledge.crawl.urls import NoPage, canonical, origin_of
from penstock.settings import CrawlSettings
from penstock.telemetry import log

MOST_FILES = 20
MOST_BYTES = 10 * 2**20  # as they are fetched
MOST_UNPACKED = 50 * 2**20  # as the standard has it
WAIT = timedelta(minutes=5)  # for a turn with the host


class Sitemaps:
    def __init__(self, chosen: CrawlSettings, fetcher: Fetcher, sandboxes: SandboxPool, politeness: Politeness) -> None:
        self._chosen = chosen
        self._fetcher = fetcher
        self._sandboxes = sandboxes
        self._politeness = politeness

    async def pages(self, ctx: Context, origin: str, rules: RobotsRules, site: Site, most: int) -> list[str]:
        """Addresses of the site, canonical, each once, in the order in which it lists them."""
        waiting = deque(each for each in rules.sitemaps or (f"{origin}/sitemap.xml",) if site.has(each))
        seen = set(waiting)
        found: dict[str, None] = {}
        for _ in range(MOST_FILES):
            if not waiting or len(found) >= most:
                break
            address = waiting.popleft()
            said = await self._read(ctx, address, rules, most)
            found |= dict.fromkeys(_addresses(said.get("pages"), address, site))
            for other in _addresses(said.get("sitemaps"), address, site):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return list(found)[:most]

    async def _read(self, ctx: Context, address: str, rules: RobotsRules, most: int) -> dict[str, Any]:
        try:
            raw = await self._fetch(ctx, address, rules)
            with os.fdopen(os.memfd_create("sitemap"), "w+b") as file:
                file.write(raw)
                file.flush()
                said = await self._sandboxes.call(
                    "sitemap", file, {"most": max(most, MOST_FILES), "unpacked": MOST_UNPACKED}, name=address
                )
        except (FetchRefused, FetchFailed, Unreadable, ResourceLimit) as error:
            log.info("a sitemap was left out", url=address, reason=str(error))
            return {}
        return said if isinstance(said, dict) else {}

    async def _fetch(self, ctx: Context, address: str, rules: RobotsRules) -> bytes:
        await self._politeness.take_turn(ctx, origin_of(address), rules, WAIT)
        raw = bytearray()
        try:
            async with asyncio.timeout(self._chosen.page_timeout.total_seconds()):
                wanted = self._fetcher.open(address, most=MOST_BYTES, user_agent=self._chosen.user_agent)
                async with wanted as response:
                    async for piece in response.pieces():
                        raw += piece
        except TimeoutError:
            raise FetchFailed(f"{address} took too long.") from None
        return bytes(raw)


def _addresses(said: object, base: str, site: Site) -> Sequence[str]:
    """Output of a sandbox is not trusted."""
    found = []
    for text in said if isinstance(said, list) else ():
        try:
            address = canonical(text, base) if isinstance(text, str) else ""
        except NoPage:
            continue
        if address and site.has(address):
            found.append(address)
    return found
