"""The task "links": what a web page says about itself (title, canonical address, robots) and where its links lead.

Nothing is joined or judged here. What is nested too deep or too crowded for the parser (web.py) gives no links.
"""

from typing import TYPE_CHECKING, Any, BinaryIO

from penstock.extraction.draft import one_line
from penstock.extraction.plain.encoding import decode
from penstock.extraction.plain.web import DEEPEST, crowded, declared_charset, nesting
from penstock.extraction.rawbytes import whole

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

LONGEST = 2_000  # characters of a reference; a longer one is no address of a page
MOST_ORDERS = 20
_UNFOLLOWED = frozenset(["nofollow", "ugc", "sponsored"])


def links(file: BinaryIO, arguments: dict[str, Any], reply: object) -> dict[str, Any]:
    """What a box runs: `most` is how many links are wanted, `token` the name by which robots are told what to do."""
    raw = whole(file, arguments)
    text = decode(raw, declared_charset(raw))
    if nesting(text) > DEEPEST or crowded(text):
        return {"note": "it is nested too deep or too crowded for its links to be read"}
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(text)
    title = tree.css_first("title")
    return {
        "title": one_line(title.text())[:1000] if title is not None else "",
        "base": _first(tree, "base[href]"),
        "canonical": _canonical(tree),
        "robots": _orders(tree, str(arguments.get("token", ""))),
        "links": _links(tree, int(arguments.get("most", 0))),
    }


def _first(tree: "LexborHTMLParser", selector: str) -> str:
    node = tree.css_first(selector)
    return _short(node.attributes.get("href")) if node is not None else ""


def _canonical(tree: "LexborHTMLParser") -> str:
    for node in tree.css("link[rel][href]"):
        if "canonical" in (node.attributes.get("rel") or "").lower().split():
            return _short(node.attributes.get("href"))
    return ""


def _orders(tree: "LexborHTMLParser", token: str) -> list[str]:
    """`<meta name=robots>`, and that of our own name, which adds to it."""
    found = [
        _short(node.attributes.get("content"))
        for node in tree.css("meta[name][content]")
        if (node.attributes.get("name") or "").strip().lower() in {"robots", token}
    ]
    return found[:MOST_ORDERS]


def _links(tree: "LexborHTMLParser", most: int) -> list[str]:
    """Each once, in their order."""
    found: dict[str, None] = {}
    for node in tree.css("a[href], area[href], frame[src], iframe[src]"):
        if len(found) >= most:
            break
        if _UNFOLLOWED & set((node.attributes.get("rel") or "").lower().split()):
            continue
        reference = _short(node.attributes.get("href") or node.attributes.get("src"))
        if reference and not reference.startswith("#"):
            found[reference] = None
    return list(found)


def _short(text: str | None) -> str:
    text = (text or "").strip()
    return text if len(text) <= LONGEST else ""
