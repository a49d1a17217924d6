"""What a part of an OOXML package refers to: the parts that belong to it, by id and kind."""

import posixpath
from collections.abc import Iterator
from typing import NamedTuple

from penstock.extraction.office.package import Package
from penstock.extraction.office.xmltree import parse_xml

_LARGEST = 64 * 2**20


class Relation(NamedTuple):
    """One reference inside of the package."""

    id: str
    kind: str
    target: str


def relations(package: Package, part: str) -> Iterator[Relation]:
    """In the order of the file; what is outside of the package is left out."""
    folder, name = posixpath.split(part)
    listed = f"{folder}/_rels/{name}.rels"
    if listed not in package:
        return
    for node in parse_xml(package.read(listed, _LARGEST), listed).elements():
        if node.attributes.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join(folder, node.attributes.get("Target", "")))
            yield Relation(node.attributes.get("Id", ""), node.attributes.get("Type", ""), target.lstrip("/"))
