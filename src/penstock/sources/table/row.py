"""A row of another database as a message: its columns as JSON."""

import base64
import json
import math
from collections.abc import Collection, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from penstock.documents import Message
from penstock.documents.inbox import encode_payload
from penstock.errors import BadValue

NUMBER, ORDER = "penstock_id", "penstock_order"  # the texts of a row's keys, beside its columns


def parse_json(text: str) -> Any:
    """What a text says as JSON; the text itself if it does not."""
    try:
        return json.loads(text, parse_float=_float)
    except (ValueError, RecursionError):
        return text


def _float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def to_json(value: Any) -> Any:  # noqa: PLR0911  one for each type
    """A value of a column as JSON has it: times as ISO 8601, decimals as text, bytes as base64."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case dict():
            return {str(name): to_json(each) for name, each in value.items()}
        case list() | tuple() | set():
            return [to_json(each) for each in value]
    return str(value)  # uuid, inet, interval, range …


def to_message(
    row: Mapping[str, Any], *, leave_out: Collection[str], json_columns: Collection[str], largest: int
) -> tuple[Message, int]:
    """The message of a row, and its bytes; one that nobody can use says why."""
    number = str(row[NUMBER])
    payload = {
        name: parse_json(value) if name in json_columns and isinstance(value, str) else to_json(value)
        for name, value in row.items()
        if name not in leave_out
    }
    try:
        size = len(encode_payload(Message(number, payload)))
    except BadValue as error:
        return Message(number, {"id": number[:200]}, poison=str(error)), 200
    if size > largest:
        reason = f"The row has {size:,} bytes as JSON, and largest of its source allows {largest:,}."
        return Message(number, {"id": number[:200]}, poison=reason), size
    return Message(number, payload), size
