"""Names of documents and collections, and metadata: validation and normalisation.

A document's name is a relative path of at most 1,024 bytes in NFC. Names that could lead out of a folder or cannot be shown
(`..`, an absolute path, backslashes, control characters) are refused with a sentence. Invisible format characters, among them
the right-to-left marks that make `exe.pdf` of `fdp.exe`, are removed: people paste them without knowing. Members of archives
get the nearest valid name, because no client is there to correct them.
"""

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from typing import Any

from penstock.engine import NUL
from penstock.errors import BadValue, NotFound
from penstock.text import storable

PREPARE, PREPARE_PACKET = "prepare_document", "prepare_packet"  # the kinds of jobs
NAME_MAX = 1024
METADATA_MAX = 64 * 1024
COLLECTION_MAX = 100
MEMBER = "!/"  # between an archive or mail and its member
JOINERS = "\u200c\u200d"  # of Persian words and of emoji: they change what is seen


def check_document_name(text: str) -> str:
    """The name as it is kept; BadValue says what is wrong with it."""
    name = _visible(text, "document")
    if name.startswith("/"):
        raise BadValue(f"The name {_short(name)} is an absolute path: use a relative one, such as reports/2024.pdf.")
    if "\\" in name:
        raise BadValue(f"The name {_short(name)} has a backslash in it: use / between folders.")
    for segment in name.split("/"):
        if not segment.strip():
            raise BadValue(f"The name {_short(name)} has an empty part: use something like reports/2024.pdf.")
        if segment in {".", ".."}:
            raise BadValue(f"The name {_short(name)} has the part {segment}: write the path without it.")
    if (size := len(name.encode())) > NAME_MAX:
        raise BadValue(f"The name {_short(name)} takes {size:,} bytes, more than {NAME_MAX:,}: shorten it.")
    return name


def check_collection_name(text: str) -> str:
    """A collection's name is one word or several, without slashes: it is part of addresses."""
    name = _visible(text, "collection")
    if "/" in name or "\\" in name or name in {".", ".."}:
        raise BadValue(f"A collection cannot be called {_short(name)}: use a name without slashes.")
    if not name.isprintable():
        raise BadValue(f"A collection cannot be called {_short(name)}: use printable characters.")
    if (size := len(name.encode())) > COLLECTION_MAX:
        raise BadValue(f"The name {_short(name)} takes {size:,} bytes, more than {COLLECTION_MAX:,}: shorten it.")
    return name


def member_name(parent: str, member: str) -> str:
    """`parent!/member`, whatever the archive says about the member."""
    text = storable(member, "\0").replace("\\", "/")
    clean = "".join(char for char in unicodedata.normalize("NFC", text) if _is_shown(char))
    segments = [segment.strip() for segment in clean.split("/")]
    below = "/".join(segment for segment in segments if segment not in {"", ".", ".."}) or "unnamed"
    return _fit(parent + MEMBER, below)


def numbered(name: str, number: int) -> str:
    """The next name when one is taken: `a!/b (2).txt`."""
    folder, slash, last = name.rpartition("/")
    stem, dot, suffix = last.rpartition(".")
    if not stem or len(suffix) > 10:
        stem, dot, suffix = last, "", ""
    return _fit("", f"{folder}{slash}{stem} ({number}){dot}{suffix}")


def fairness_key_of(tenant: str, collection: str) -> str:
    """The fairness key of a collection: each gets its turn."""
    return collection if tenant == "default" else f"{tenant}/{collection}"


def encode_metadata(metadata: Mapping[str, Any]) -> str:
    """As JSON that PostgreSQL can keep; BadValue says why not."""
    if not isinstance(metadata, Mapping):
        raise BadValue('The metadata must be a JSON object, such as {"client": "Acme"}.')
    try:
        text = json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise BadValue(
            f"The metadata cannot be kept as JSON ({error}): use text, numbers, lists and objects."
        ) from None
    if "\\u0000" in text and NUL.search(text):
        raise BadValue("The metadata holds a NUL character, which PostgreSQL cannot keep: remove it.")
    if size > METADATA_MAX:
        raise BadValue(f"The metadata takes {size:,} bytes, more than {METADATA_MAX:,}: shorten it.")
    return text


def no_such_collection(name: str, advice: str = "`penstock collections list` shows all.") -> NotFound:
    """The error for a collection that does not exist, or that the caller may not see."""
    return NotFound(f"Collection {name} does not exist. {advice}")


def _fit(head: str, tail: str) -> str:
    """The whole, or if it is too long, its head and its end with a mark of what was there."""
    name = head + tail
    if len(name.encode()) <= NAME_MAX:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:12]
    ending = tail.encode()[-200:].decode(errors="ignore").rpartition("/")[2]
    room = NAME_MAX - len(ending.encode()) - len(mark) - 2
    return f"{name.encode()[:room].decode(errors='ignore')}~{mark}~{ending}"


def _visible(text: str, what: str) -> str:
    if storable(text, "\0") != text:
        raise BadValue(f"The name of the {what} is not valid text: send it as UTF-8.")
    for char in text:
        if unicodedata.category(char) in {"Cc", "Zl", "Zp"}:
            raise BadValue(f"The name of the {what} has the control character U+{ord(char):04X} in it: remove it.")
    name = unicodedata.normalize("NFC", "".join(char for char in text if _is_shown(char))).strip()
    if not name:
        raise BadValue(f"A {what} needs a name.")
    return name


def _is_shown(char: str) -> bool:
    return char in JOINERS or unicodedata.category(char) not in {"Cc", "Cf", "Zl", "Zp"}


def _short(name: str) -> str:
    return repr(name if len(name) <= 60 else f"{name[:60]}…")
