"""The address of a database that no driver of ours parses: its parts, and what of it may be shown."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from penstock.errors import BadSetting


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is."""

    user: str
    password: str
    host: str
    port: int
    database: str
    options: dict[str, str]

    @property
    def where(self) -> str:
        """Without user and password."""
        return f"{self.host}:{self.port}/{self.database}"


def parse_address(url: str, port: int) -> Address:
    """Not by urlsplit: its errors quote the password."""
    found = re.fullmatch(
        r"\w+://(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?(?P<host>\[[^]]*\]|[^:/?#]*)(?::(?P<port>\d+))?"
        r"/(?P<database>[^/?#]+)(?:\?(?P<options>[^#]*))?",
        url,
    )
    if found is None:
        raise BadSetting(
            "The url of the table cannot be split: write mysql://user:password@host:3306/database. "
            "In a password, write %2F for /, %3A for :, %40 for @, %3F for ? and %23 for #."
        )
    return Address(
        user=unquote(found["user"] or ""),
        password=unquote(found["password"] or ""),
        host=(found["host"] or "localhost").strip("[]"),
        port=int(found["port"] or port),
        database=unquote(found["database"]),
        options=dict(parse_qsl(found["options"] or "")),
    )
