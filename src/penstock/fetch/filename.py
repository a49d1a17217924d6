"""What a fetched file is called: one part of a path, which leads nowhere and shows what it is.

The server's word comes first (Content-Disposition), then the end of the path, then the host.
"""

import unicodedata
from email.message import Message
from pathlib import PurePosixPath

from penstock.fetch.target import Target

LONGEST = 255  # bytes, as in most file systems


def file_name(disposition: str, target: Target) -> str:
    """The best name there is."""
    return clean_name(_declared(disposition)) or clean_name(target.url.name) or target.host.replace(":", "-")


def _declared(disposition: str) -> str:
    message = Message()
    message["Content-Disposition"] = disposition
    try:
        return message.get_filename() or ""
    except (ValueError, LookupError):  # it may name any codec of Python, also those that decode nothing
        return ""


def clean_name(text: str) -> str:
    """The last part of a path without what cannot be seen; empty when nothing is left."""
    last = text.encode("utf-8", "replace").decode().replace("\\", "/").rpartition("/")[2]
    shown = (
        char for char in unicodedata.normalize("NFC", last) if unicodedata.category(char)[0] not in "CZ" or char == " "
    )
    name = "".join(shown).strip()
    return "" if name in {"", ".", ".."} else _short(name)


def _short(name: str) -> str:
    if len(name.encode()) <= LONGEST:
        return name
    ending = PurePosixPath(name).suffix
    ending = ending if len(ending.encode()) <= 20 else ""
    room = LONGEST - len(ending.encode())
    return name.removesuffix(ending).encode()[:room].decode(errors="ignore") + ending
