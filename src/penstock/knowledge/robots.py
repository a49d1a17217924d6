"""What robots.txt says, as RFC 9309 reads it: the group of our name, else that of `*`; the longest rule that fits wins.

Not by `urllib.robotparser`: before Python 3.13 it takes the first rule that fits, and it knows no `*` and no `$`. Reading never
fails: what is no rule is left out. How long a file may be, how old, and what its absence means is in hosts.py.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from penstock.knowledge.canonical import QUERY_SAFE, NoPage, canonical, respell

MOST_BYTES = 500 * 1024  # as the standard asks for at least
MOST_RULES = 2_000  # of our groups: each link is compared with all of them
MOST_SITEMAPS = 20
_LINE = re.compile(r"\s*([A-Za-z-]+)\s*:\s*([^#]*)")
_TOKEN = re.compile(r"[A-Za-z_-]+|\*")


@dataclass(frozen=True, slots=True)
class Rule:
    """A path pattern, and whether it lets us in."""

    pattern: str
    allows: bool

    def fits(self, path: str) -> bool:
        """`*` is anything, `$` at the end is the end. Piece by piece from the left: a pattern of stars cannot make it slow."""
        anchored = self.pattern.endswith("$")
        first, *others = self.pattern.removesuffix("$").split("*")
        if not path.startswith(first):
            return False
        at = len(first)
        if not others:
            return not anchored or at == len(path)
        *middle, last = others
        for piece in middle:
            found = path.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        if anchored:
            return len(path) - len(last) >= at and path.endswith(last)
        return path.find(last, at) >= 0


@dataclass(frozen=True, slots=True)
class Rules:
    """What one site lets us do."""

    rules: tuple[Rule, ...] = ()
    delay: float = 0.0  # seconds between two requests that the site asks for
    sitemaps: tuple[str, ...] = ()

    def allows(self, url: str) -> bool:
        """Of a canonical URL; without a rule it is allowed, and of two that are equally long the kinder one counts."""
        parts = urlsplit(url)
        path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        if path == "/robots.txt":
            return True
        fitting = [(len(rule.pattern), rule.allows) for rule in self.rules if rule.fits(path)]
        return max(fitting)[1] if fitting else True


@dataclass
class _Group:
    agents: set[str] = field(default_factory=set)
    rules: list[Rule] = field(default_factory=list)
    delay: float = 0.0


def read_robots(text: str, token: str, origin: str) -> Rules:
    """The rules for us, whose name is `token` in small letters."""
    groups: list[_Group] = []
    sitemaps: list[str] = []
    in_head = False  # lines of agents that follow each other are one group
    for line in text[:MOST_BYTES].splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        key, value = found[1].lower(), found[2].strip()
        if key == "user-agent":
            if not in_head:
                groups.append(_Group())
            named = _TOKEN.match(value)
            groups[-1].agents.add(named[0].lower() if named else "")
            in_head = True
        elif key == "sitemap":
            sitemaps.append(value)
        elif key in {"allow", "disallow", "crawl-delay"}:
            in_head = False
            if groups:
                _add(groups[-1], key, value)
    own = [group for group in groups if token in group.agents] or [group for group in groups if "*" in group.agents]
    rules = [rule for group in own for rule in group.rules][:MOST_RULES]
    return Rules(tuple(rules), max((group.delay for group in own), default=0.0), tuple(_addresses(sitemaps, origin)))


def _add(group: _Group, key: str, value: str) -> None:
    if key == "crawl-delay":
        if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", value):
            group.delay = float(value)
    elif value:  # an empty one says nothing
        group.rules.append(Rule(_pattern(value), key == "allow"))


def _pattern(text: str) -> str:
    """In the spelling of canonical URLs."""
    return respell(text if text.startswith(("/", "*")) else f"/{text}", QUERY_SAFE)


def parted(urls: Iterable[str], origin: str, rules: Rules) -> tuple[list[str], list[str]]:
    """Addresses that robots.txt allows, and those that it bars; of other hosts each page asks when it is its turn."""
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
