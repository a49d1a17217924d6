"""Parses XML parts into a small tree: local names, no entities, no external references, bounded depth.

Namespaces are dropped, because the strict and the transitional kind of OOXML differ in nothing else. Entities are never
expanded: no Office program defines one.
"""

import re
from collections.abc import Iterator
from xml.parsers import expat

from penstock.errors import Corrupt, Suspicious

DEEPEST = 400


class XmlNode:
    """An element: its local name, attributes (local names, too), and children in order; text is a child."""

    __slots__ = ("attributes", "children", "tag")

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[XmlNode | str] = []

    def elements(self) -> "Iterator[XmlNode]":
        return (child for child in self.children if isinstance(child, XmlNode))

    def walk(self) -> "Iterator[XmlNode]":
        """This node and all below, in document order."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += [child for child in reversed(node.children) if isinstance(child, XmlNode)]

    def find(self, tag: str) -> "XmlNode | None":
        return next((node for node in self.walk() if node.tag == tag), None)

    def text(self) -> str:
        pieces, waiting = [], list(reversed(self.children))
        while waiting:
            child = waiting.pop()
            if isinstance(child, str):
                pieces.append(child)
            else:
                waiting += reversed(child.children)
        return "".join(pieces)


def parse_xml(raw: bytes, part: str) -> XmlNode:
    """The root; broken XML is `Corrupt`, entities and endless nesting are `Suspicious`."""
    root = XmlNode("", {})
    stack = [root]

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(stack) > DEEPEST:
            raise Suspicious(f"The part {part!r} nests more than {DEEPEST} elements into each other.")
        node = XmlNode(local(name), {_attribute(key): value for key, value in attributes.items()})
        stack[-1].children.append(node)
        stack.append(node)

    def end(_: str) -> None:
        stack.pop()

    def text(characters: str) -> None:
        stack[-1].children.append(characters)

    parser = safe_parser(part)
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    try:
        parser.Parse(raw, True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise Corrupt(f"damaged: its part {part!r} is not well-formed XML") from error
    return next(root.elements(), root)


def safe_parser(part: str) -> expat.XMLParserType:
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True

    def refuse(name: str, *_: object) -> None:
        raise Suspicious(f"The part {part!r} defines the XML entity {name[:40]!r}, which Office programs never do.")

    parser.EntityDeclHandler = refuse
    return parser


def local(name: str) -> str:
    return name.rpartition(" ")[2]


def _attribute(name: str) -> str:
    """`r:id` keeps its prefix, because the element may have an `id`, too."""
    space, _, last = name.rpartition(" ")
    return f"r:{last}" if space.endswith("/relationships") else last


_SPACES = re.compile(r"[ \t\r\n]+")


def squeeze(text: str) -> str:
    return _SPACES.sub(" ", text).strip()
