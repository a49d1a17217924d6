"""`[rates]`: rate limits of each caller, written like `50/s`, and how many searches run at once."""

import os
import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from penstock.settings.types import Section, Whole

_UNITS = {"s": 1, "min": 60, "h": 3600}  # in seconds
_RATE = re.compile(r"([0-9]{1,9})\s*/\s*(s|min|h)")


@dataclass(frozen=True)
class Rate:
    """A number of requests in a number of seconds."""

    count: int
    seconds: int


def parse_rate(text: str) -> Rate | None:
    """Read `50/s`, `3000/min` or `100/h`; `off` is None: without a limit."""
    if text.strip() == "off":
        return None
    parts = _RATE.fullmatch(text.strip())
    if parts is None:
        raise ValueError(f"{text!r} is not a rate. Write it like 50/s, 3000/min or 100/h, or off for no limit.")
    if not int(parts[1]):
        raise ValueError(f"{text!r} would refuse everything. Write a rate of at least 1, or off for no limit.")
    return Rate(int(parts[1]), _UNITS[parts[2]])


def _written(text: str) -> str:
    rate = parse_rate(text)
    return re.sub(r"\s", "", text) if rate else "off"


RateText = Annotated[str, AfterValidator(_written)]


class RateSettings(Section):
    """How many requests one API process answers: `50/s`, `3000/min`, `100/h` or `off`; twice the number may come at once."""

    search: RateText = Field("100/s", description="Searches of one key, or of one address without a key.")
    read: RateText = Field("500/s", description="Other requests that only read, of one key or address.")
    write: RateText = Field("100/s", description="Requests that change something, uploads too, of one key or address.")
    per_address: RateText = Field(
        "1000/s",
        description="Requests of one address, whatever their keys; one with a wrong key counts as ten.",
    )
    searches_at_once: Whole = Field(
        default_factory=lambda _: max(2, os.cpu_count() or 1),
        json_schema_extra={"shown": "one per processor, at least 2"},
        ge=1,
        le=1_000,
        description="How many searches one API process runs at the same time; what cannot begin soon is refused.",
    )
