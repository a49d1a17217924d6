"""The bytes of a file as a whole, for formats that are small by nature."""

from collections.abc import Mapping
from typing import Any, BinaryIO

from penstock.errors import TooMuch


def whole(file: BinaryIO, arguments: Mapping[str, Any]) -> bytes:
    """All bytes of a text: four for each character that it may have."""
    most = 4 * int(arguments.get("limits", {}).get("characters", 50_000_000))
    size = file.seek(0, 2)
    if size > most:
        raise TooMuch(
            f"It has {size:,} bytes of text, more than {most // 4:,} characters (limits.characters) can have."
        )
    file.seek(0)
    return file.read()
