"""One spelling for one page: the canonical form of a URL, by which a crawl recognises known pages.

Scheme and host in lower case and IDNA, no usual port, no dot segments, percent-encoding in one form, no fragment, the query
sorted and without tracking parameters. Nothing is fetched here; what a server declares about its addresses (redirects,
`rel=canonical`) is applied later.
"""

import re
from urllib.parse import quote, urljoin, urlsplit

from yarl import URL

from penstock.errors import BadValue

LONGEST = 2_000  # bytes: an index row ends at 2,700
USUAL_PORTS = {"http": 80, "https": 443}
# Tracking parameters, which never decide which page it is. `x_` stands for all that begin so.
TRACKING = frozenset(
    ["gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "fbclid", "msclkid", "yclid", "twclid", "ttclid", "igshid",
     "li_fat_id", "mc_cid", "mc_eid", "mkt_tok", "vero_id", "_ga", "_gl", "_hsenc", "_hsmi", "srsltid", "phpsessid",
     "jsessionid", "aspsessionid"]
)  # fmt: skip
TRACKING_STARTS = ("utm_", "pk_", "mtm_", "hsa_")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
PATH_SAFE = "/%:@!$&'()*+,;=~-._"
QUERY_SAFE = PATH_SAFE + "?"
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_STRAY = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SESSION = re.compile(r";jsessionid=[^/?#;]*", re.IGNORECASE)
_ENDS = "".join(map(chr, range(33)))  # controls and the space, which browsers drop at both ends
_WITHIN = {ord(char): None for char in "\t\r\n"}  # and these everywhere


class NoPage(BadValue):
    """The text is not the address of a web page; the message has the reason."""


def canonical(text: str, base: str = "") -> str:
    """The canonical form of a URL, or of a reference on the page `base`; NoPage if it cannot be the address of a page."""
    text = text.strip(_ENDS).translate(_WITHIN)
    if len(text) > LONGEST:
        raise NoPage(f"The URL has {len(text):,} characters: use one of at most {LONGEST:,}.")
    try:
        parts = urlsplit(urljoin(base, text) if base else text)
        port = parts.port
        host = parts.hostname or ""
    except ValueError:
        raise NoPage("This is not a URL: use one like https://example.org/.") from None
    scheme = parts.scheme.lower()
    if scheme not in USUAL_PORTS:
        raise NoPage("The URL must begin with http:// or https://.")
    if "@" in parts.netloc:
        raise NoPage("The URL has a user or password in it: use one without.")
    where = _host(scheme, host)
    if port is not None and port != USUAL_PORTS[scheme]:
        where += f":{port}"
    spelled = respell(_SESSION.sub("", parts.path), PATH_SAFE) or "/"
    path = URL(f"{scheme}://{where}/").joinpath(f".{spelled}", encoded=True).raw_path  # without dot segments
    query = _query(parts.query)
    made = f"{scheme}://{where}{path}{'?' if query else ''}{query}"
    if len(made) > LONGEST:
        raise NoPage(f"The URL has {len(made):,} characters: use one of at most {LONGEST:,}.")
    return made


def origin_of(url: str) -> str:
    """The origin whose robots.txt applies to a canonical URL: `https://example.org:8443`."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def host_of(url: str) -> str:
    """The host of a canonical URL, with its port unless it is the usual one: what makes two pages one site."""
    return url.partition("://")[2].partition("/")[0]


def relatives_of(host: str) -> list[str]:
    """A host with and without www, which people regard as one site."""
    other = host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"
    name = other.partition(":")[0]
    is_name = "." in name and not name.rpartition(".")[2].isdecimal() and "[" not in name
    return [host, other] if is_name else [host]


def _host(scheme: str, host: str) -> str:
    host = host.rstrip(".")
    try:
        encoded = URL.build(scheme=scheme, host=host).raw_host if host else None
    except (ValueError, UnicodeError):
        encoded = None
    if not encoded or len(encoded) > 253 or re.search(r"[^a-z0-9_.:%-]", encoded.lower()):
        raise NoPage("The URL has no usable host: use one like https://example.org/.")
    return f"[{encoded.lower()}]" if ":" in encoded else encoded.lower()


def respell(text: str, safe: str) -> str:
    """Percent-encoding in one form: nothing encoded that need not be, the rest in capitals."""
    encoded = quote(_STRAY.sub("%25", text), safe=safe, errors="replace")
    return _ESCAPE.sub(_plain, encoded)


def _plain(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    return chr(code) if code in _UNRESERVED else f"%{found[1].upper()}"


def _query(query: str) -> str:
    """Pairs by their names, of one name in the order in which they came."""
    pairs = [respell(pair, QUERY_SAFE) for pair in query.split("&") if pair]
    named = [(pair.partition("=")[0], pair) for pair in pairs]
    kept = [(name, pair) for name, pair in named if not _tracks(name.lower())]
    return "&".join(pair for _, pair in sorted(kept, key=lambda each: each[0]))


def _tracks(name: str) -> bool:
    return name in TRACKING or name.startswith(TRACKING_STARTS)
