"""Results from JSON, by the types of their fields; what they are is in results.py."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from penstock.client.errors import BadAnswer
from penstock.client.results import Result

R = TypeVar("R", bound=Result)


def decode(kind: type[R], answer: object) -> R:
    """The result; BadAnswer if it lacks what makes it one."""
    if not isinstance(answer, Mapping):
        raise BadAnswer(f"The server's answer is no {kind.__name__}: is the address that of Penstock?")
    readers = _readers(kind)  # type: ignore[arg-type]  # a class can be hashed
    known = {name: readers[name](value) for name, value in answer.items() if name in readers}
    try:
        return kind(**known, extra={name: value for name, value in answer.items() if name not in readers})
    except TypeError:
        missing = [each.name for each in dataclasses.fields(kind) if _is_needed(each) and each.name not in known]
        raise BadAnswer(f"The server's {kind.__name__} is without {', '.join(missing)}.") from None


def decode_list(kind: type[R], answer: object) -> list[R]:
    if not isinstance(answer, list):
        raise BadAnswer(f"The server's answer is no list of {kind.__name__}: is the address that of Penstock?")
    return [decode(kind, each) for each in answer]


def _is_needed(each: "dataclasses.Field[Any]") -> bool:
    return each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING


@cache
def _readers(kind: type[Result]) -> Mapping[str, Any]:
    hints = typing.get_type_hints(kind)
    return {each.name: _reader(hints[each.name]) for each in dataclasses.fields(kind) if each.name != "extra"}


def _reader(hint: Any) -> Any:
    """How a value of this type is made from JSON; what is no time and no result stays as it came."""
    for option in typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,):
        if option is datetime:
            return _time
        if isinstance(option, type) and issubclass(option, Result):
            return lambda value, kind=option: None if value is None else decode(kind, value)
        inner = typing.get_args(option)
        if inner and isinstance(inner[0], type) and issubclass(inner[0], Result):
            return lambda value, kind=inner[0]: decode_list(kind, value or [])
    return lambda value: value


def _time(text: object) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(str(text))
    except ValueError:
        raise BadAnswer(f"The server's time {text!r} is none.") from None
