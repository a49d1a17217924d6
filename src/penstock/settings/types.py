"""Types of settings: sections, durations, sizes, folders, and database URLs that hide their password.

Parsing raises ValueError with a sentence for a person. No error text and no `str()` shows a secret.
"""

import re
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import parse_qs, quote, unquote

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema
from typing_extensions import override


class Section(BaseModel):
    """A group of settings; validation errors of pydantic must not quote a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


# The second branch is for a password with an unencoded / ? or #; digits before those are a port, not a password.
_URL_PASSWORD = re.compile(r"(://[^\s/?#:@\"<>]*:)(?:[^\s/?#\"<>]*|(?!\d+(?:[/?#]|$))[^\s\"<>]*)@")
_NAMED_PASSWORD = re.compile(r"(?i)(password=)(?:'[^']*'|[^&\s'\"]+)")

_UNITS = {"d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000}  # in microseconds
_DURATION = re.compile(r"\s*".join(rf"(?:([0-9]+(?:\.[0-9]+)?)\s*{unit})?" for unit in _UNITS))
_MEMORY = re.compile(r"([0-9]+)\s*(B|kB|MB|GB|TB)?")
_MEMORY_UNITS = {None: 8192, "B": 1, "kB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}


def mask_credentials(text: str) -> str:
    """Replace the password of every URL and every `password=` by `***`."""
    if "@" in text:  # else the pattern would search for it from every :// to the end
        text = _URL_PASSWORD.sub(r"\1***@", text)
    return _NAMED_PASSWORD.sub(r"\1***", text)


def parse_duration(text: str | float | timedelta) -> timedelta:
    """Read `250ms`, `10s`, `5m`, `2h`, `1d`, `1h30m` or a number of seconds; more than nothing, or ValueError."""
    try:
        duration = text if isinstance(text, timedelta) else timedelta(microseconds=_microseconds(str(text).strip()))
    except OverflowError:
        raise ValueError(f"{text!r} is too long for a duration.") from None
    if duration <= timedelta(0):
        raise ValueError(f"{text!r} is too short. A duration is more than zero.")
    return duration


def _microseconds(text: str) -> int:
    if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?", text):
        return round(Decimal(text) * _UNITS["s"])
    parts = _DURATION.fullmatch(text)
    if not text or parts is None:
        raise ValueError(f"{text!r} is not a duration. Write 250ms, 10s, 5m, 2h, 1d, 1h30m or a number of seconds.")
    amounts = zip(parts.groups(default="0"), _UNITS.values(), strict=True)
    return sum(round(Decimal(amount) * unit) for amount, unit in amounts)


def format_duration(duration: timedelta) -> str:
    """Write a duration so that `parse_duration` reads the same back: `1h30m`."""
    rest, text = duration // timedelta(microseconds=1), ""
    for unit, size in _UNITS.items():
        amount, rest = divmod(rest, size)
        if unit == "ms" and (amount or rest):
            text += f"{amount}.{rest:03}".rstrip("0").rstrip(".") + unit
        elif amount:
            text += f"{amount}{unit}"
    return text or "0s"


@dataclass(frozen=True)
class DatabaseUrl:
    """The address of a PostgreSQL database. Only `reveal()` and `password` show its secret."""

    _text: str = field(repr=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"postgres(ql)?://\S*", self._text):
            raise ValueError("A database URL looks like postgresql://user@host:5432/name, without spaces.")
        _, user_at, hosts, path, query = self._parts()
        hosts_fit = all(re.fullmatch(r"(\[[^]]*\]|[^:]*)(:\d*)?", host) for host in hosts.split(","))
        if not hosts_fit or ("@" in path + query and not user_at):
            raise ValueError(
                "The URL cannot be split into user, password, host and port. "
                "In a password, write %2F for /, %3A for :, %40 for @, %3F for ? and %23 for #."
            )

    def _parts(self) -> tuple[str, str, str, str, str]:
        """`scheme://`, `user:password@`, hosts, `/path`, `?query`. Not by urlsplit: its errors quote the password."""
        scheme, separator, address = self._text.partition("://")
        netloc = re.split(r"[/?#]", address, maxsplit=1)[0]
        user, at, hosts = netloc.rpartition("@")
        path, mark, query = address[len(netloc) :].partition("?")
        return scheme + separator, user + at, hosts, path, mark + query

    def reveal(self) -> str:
        """The real URL, for a driver and never for a log."""
        return self._text

    @property
    def password(self) -> str | None:
        """The password as the server sees it, so that logs can mask it."""
        _, user_at, _, _, query = self._parts()
        named = parse_qs(query[1:]).get("password", [""])[-1]
        return named or unquote(user_at[:-1].partition(":")[2]) or None

    @property
    def without_password(self) -> str:
        """The URL for a command line, which every user of the machine can read; the password is passed in another way."""
        scheme, user_at, hosts, path, query = self._parts()
        return scheme + re.sub(r":.*@", "@", user_at) + hosts + path + _without(query, "password")

    def with_database(self, name: str) -> Self:
        """Another database of the same server, as the same user."""
        scheme, user_at, hosts, _, query = self._parts()
        query = _without(query, "dbname")  # to libpq, it would beat the path
        return type(self)(f"{scheme}{user_at}{hosts}/{quote(name, safe='')}{query}")

    @override
    def __str__(self) -> str:
        scheme, user_at, hosts, path, query = self._parts()
        rest = re.sub(r"(?i)(password=)[^&]*", r"\1***", path + query)
        return scheme + re.sub(r":.*@", ":***@", user_at) + hosts + rest

    @override
    def __repr__(self) -> str:
        return f"DatabaseUrl({str(self)!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validated, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def _validated(cls, value: object) -> Self:
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise PydanticCustomError("wrong_type", "not text")
        return cls(value.strip())


def _without(query: str, name: str) -> str:
    kept = [part for part in query[1:].split("&") if part and unquote(part.partition("=")[0]) != name]
    return "?" + "&".join(kept) if kept else ""


def _absolute(value: Path) -> Path:
    try:
        return value.expanduser().absolute()
    except RuntimeError:
        raise ValueError(f"{value.parts[0]} has no home folder. Write the whole path.") from None


def _not_blank(value: object) -> object:
    if isinstance(value, str | Path) and (not str(value).strip() or "\0" in str(value)):
        raise ValueError("This is not a path. Name a folder, or remove it.")
    return value


def _number_not_bool(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticCustomError("wrong_type", "not a number")
    return value


def _memory(text: str) -> str:
    parts = _MEMORY.fullmatch(text.strip())
    if parts is None:
        raise ValueError(f"{text!r} is not an amount of memory. Write it like 128MB or 2GB (kB, MB, GB, TB).")
    if not 2**17 <= int(parts[1]) * _MEMORY_UNITS[parts[2]] <= 2**42:
        raise ValueError(f"{text!r} is out of range. PostgreSQL takes 128kB to 4TB.")
    return text.strip()


def parse_size(text: object) -> int:
    """Read `64kB`, `10MB`, `2GB` or a number of bytes."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    parts = _MEMORY.fullmatch(str(text).strip())
    if parts is None:
        raise ValueError(f"{text!r} is not an amount of bytes. Write it like 10MB or 2GB (B, kB, MB, GB, TB).")
    return int(parts[1]) * _MEMORY_UNITS[parts[2] or "B"]


def format_size(size: int) -> str:
    """Write a size so that `parse_size` reads the same back: `10MB`."""
    for unit in ("TB", "GB", "MB", "kB"):
        if size and size % _MEMORY_UNITS[unit] == 0:
            return f"{size // _MEMORY_UNITS[unit]}{unit}"
    return f"{size}B"


class Bytes(int):
    """A number of bytes, which is shown with its unit."""

    @override
    def __str__(self) -> str:
        return format_size(int(self))


def _blank_is_none(value: object) -> object:
    return None if value == "" else value


Whole = Annotated[int, BeforeValidator(_number_not_bool)]
Folder = Annotated[Path, BeforeValidator(_not_blank), AfterValidator(_absolute)]
Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Memory = Annotated[str, AfterValidator(_memory)]
Size = Annotated[int, BeforeValidator(parse_size), AfterValidator(Bytes)]
Unset = BeforeValidator(_blank_is_none)  # TOML and variables have no null: "" stands for it
