"""What documents and collections may be called.

A document's name is a relative path, at most 1,024 bytes in NFC. What could lead out of a folder or cannot be shown (`..`, an
absolute path, backslashes, control characters) is refused with a sentence. Invisible format characters, among them the
right-to-left marks that make `exe.pdf` of `fdp.exe`, are removed: people paste them without knowing. Members of archives get
the name that fits best, because nobody is there to be told.
"""

import hashlib
import unicodedata

from penstock.errors import BadValue

NAME_MAX = 1024
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
    text = _encodable(member).replace("\\", "/")
    clean = "".join(char for char in unicodedata.normalize("NFC", text) if _is_shown(char))
    segments = [segment.strip() for segment in clean.split("/")]
    below = "/".join(segment for segment in segments if segment not in {"", ".", ".."}) or "unnamed"
    return _fit(parent + MEMBER, below)


def numbered(name: str, number: int) -> str:
    """Another name beside one that is taken: `a!/b (2).txt`."""
    folder, slash, last = name.rpartition("/")
    stem, dot, suffix = last.rpartition(".")
    if not stem or len(suffix) > 10:
        stem, dot, suffix = last, "", ""
    return _fit("", f"{folder}{slash}{stem} ({number}){dot}{suffix}")


def share_of(tenant: str, collection: str) -> str:
    """Whose work it is, for the engine: each collection gets its turn."""
    return collection if tenant == "default" else f"{tenant}/{collection}"


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
    if _encodable(text) != text:
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


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _short(name: str) -> str:
    return repr(name if len(name) <= 60 else f"{name[:60]}…")
