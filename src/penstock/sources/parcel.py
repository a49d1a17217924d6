"""What of a folder becomes one message: a file, or for packets a folder directly below with all its files.

Its number is its path and a mark of its content; what nobody can read has a mark of its sizes and times instead.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.documents import Message
from penstock.documents.manifest import DIGEST
from penstock.documents.naming import check_document_name
from penstock.errors import BadValue
from penstock.settings import Settings
from penstock.sources.look import Leaf, hash_leaf, leaf, walk


@dataclass(frozen=True, slots=True)
class Parcel:
    """Files that are taken together."""

    name: str
    leaves: Sequence[Leaf]  # in the order of their names
    packet: bool

    @property
    def size(self) -> int:
        return sum(each.size for each in self.leaves)

    def reason(self, settings: Settings) -> str:
        """Why nobody has to read it; nothing if it can be taken."""
        try:
            check_document_name(self.name)
        except BadValue as error:
            return f"The {'folder' if self.packet else 'file'} cannot be taken under its name. {error}"
        if len(self.leaves) > (most := settings.packet.documents) and self.packet:
            return f"The folder has {len(self.leaves):,} files, and packet.documents allows {most:,}."
        large = next((each for each in self.leaves if each.size > settings.limits.bytes), None)
        if large:
            return (
                f"{large.path} has {large.size:,} bytes, more than {settings.limits.bytes:,}, the most for one document "
                "(limits.bytes): split it, or raise the limit."
            )
        return ""

    def message(self, digests: Sequence[bytes]) -> Message:
        """With the time of its last change, which nobody can set: content that was here before, and has come back, is another
        message, even if a backup has restored it with its old time."""
        payload: dict[str, Any] = {"name": self.name, "changed": max(each.changed for each in self.leaves)}
        if self.packet:
            payload["documents"] = [
                {"name": _text(name), DIGEST: digest.hex()} for name, digest in zip(self._inner(), digests, strict=True)
            ]
        else:
            payload[DIGEST] = digests[0].hex()
        return Message(f"{self.name}@{self.mark(digests)}", payload)

    def refusal(self, reason: str) -> Message:
        name = _text(self.name)
        return Message(f"{name}@{self.unread_mark()}", {"name": name}, poison=_text(reason))

    def mark(self, digests: Sequence[bytes]) -> str:
        if not self.packet:
            return digests[0].hex()
        listing = [[_text(name), digest.hex()] for name, digest in zip(self._inner(), digests, strict=True)]
        return hashlib.sha256(json.dumps(listing).encode()).hexdigest()

    def unread_mark(self) -> str:
        seen = [[_text(each.path), each.size, each.modified] for each in self.leaves]
        return f"unread-{hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:32]}"

    def has(self, mark: str, top: Path) -> bool:
        """Whether it is what was taken under this mark; reads it. Blocks."""
        if mark.startswith("unread-"):
            return mark == self.unread_mark()
        return mark == self.mark([hash_leaf(top, each) for each in self.leaves])

    def _inner(self) -> list[str]:
        return [each.path[len(self.name) + 1 :] for each in self.leaves]


def parcels(leaves: Iterable[Leaf], *, packets: bool) -> list[Parcel]:
    """In the order of their names. A file that lies beside the folders of packets belongs to none."""
    if not packets:
        return [Parcel(each.path, (each,), packet=False) for each in sorted(leaves, key=lambda each: each.path)]
    found: dict[str, list[Leaf]] = {}
    for each in leaves:
        folder, slash, _ = each.path.partition("/")
        if slash:
            found.setdefault(folder, []).append(each)
    return [Parcel(name, tuple(sorted(found[name], key=lambda each: each.path)), packet=True) for name in sorted(found)]


def parcel_at(top: Path, name: str, wanted: Callable[[str], bool], *, packet: bool) -> Parcel | None:
    """The one of this name, if it is there. Blocks."""
    try:
        if not packet:
            return Parcel(name, (leaf(name, (top / name).lstat()),), packet=False)
        found = parcels(walk(top, name, wanted=wanted), packets=True)
    except OSError:
        return None
    return found[0] if found else None


def _text(name: str) -> str:
    """A name of a file may be any bytes; what is no text is shown as a question mark."""
    return name.encode("utf-8", "replace").decode()
