"""What an API key looks like: `pk_`, eight characters that name it, `_`, and 256 bits of chance.

    pk_7m2kq4xw_Vq0k…43 characters

The name (its *prefix*) may be shown and logged; the whole is shown once, when it is made. Kept is its SHA-256: 256 bits cannot
be guessed, so the slow hashes that passwords need would cost every request and protect nothing.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass, field

LETTERS = "abcdefghijkmnpqrstuvwxyz"  # none that is mistaken for another
DIGITS = "23456789"
PREFIX = 8
FORM = re.compile(r"pk_([a-z0-9]{8})_[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Key:
    """A key as its holder has it; printing it shows the prefix alone."""

    prefix: str
    text: str = field(repr=False)

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.text.encode()).digest()


def make_key() -> Key:
    # A letter first: who revokes a key by its prefix or its number means one of them.
    prefix = secrets.choice(LETTERS) + "".join(secrets.choice(LETTERS + DIGITS) for _ in range(PREFIX - 1))
    return Key(prefix, f"pk_{prefix}_{secrets.token_urlsafe(32)}")


def read_key(text: str) -> Key | None:
    """The key that a text is; None if it has not the form of one."""
    form = FORM.fullmatch(text)
    return Key(form[1], text) if form else None
