"""A rules file: how it is read, and how each of its keys is checked. What is wrong is one sentence: file, rule, fix."""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn

from penstock.errors import BadSetting

HEAVIEST = 50.0  # a weight beyond all doubt


@dataclass(frozen=True)
class RulesFile:
    """One file; `where` is the place in it, such as `, rule 3`, that a sentence names."""

    path: Path

    def read(self) -> dict[str, Any]:
        """All of it, as TOML."""
        try:
            return tomllib.loads(self.path.read_text(encoding="utf-8"))
        except OSError as error:
            raise BadSetting(
                f"The rules file {self.path} cannot be read: {error.strerror}. Correct its path or its permissions."
            ) from error
        except UnicodeDecodeError as error:
            raise BadSetting(f"The rules file {self.path} is not UTF-8 text. Save it as UTF-8.") from error
        except tomllib.TOMLDecodeError as error:
            raise BadSetting(f"The rules file {self.path} is not valid TOML: {error}. Correct that line.") from error

    def refuse(self, where: str, sentence: str) -> NoReturn:
        raise BadSetting(f"The rules file {self.path}{where}: {sentence}")

    def check_known(self, name: str, known: Collection[str], where: str, what: str) -> None:
        if name not in known:
            self.refuse(where, f"{name} is not {what}. {_advice(name, known)}")

    def check_keys(self, table: Mapping[str, Any], known: set[str], where: str) -> None:
        for key in table:
            self.check_known(key, known, where, "a key here")

    def choice(self, table: Mapping[str, Any], key: str, where: str, known: Sequence[str], usual: str | None) -> str:
        value = table.get(key, usual)
        if not isinstance(value, str) or value not in known:
            said = f"{key} is missing" if value is None else f"{key} is {value!r}"
            self.refuse(where, f"{said}. Write one of {', '.join(known)}.")
        return value

    def number(self, table: Mapping[str, Any], key: str, where: str, *, low: float, high: float = HEAVIEST) -> float:
        value = table.get(key)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not isfinite(value)
            or not low <= value <= high
        ):
            said = f"{key} is missing" if value is None else f"{key} is {value!r}"
            self.refuse(where, f"{said}. Write a number from {low:g} to {high:g}.")
        return float(value)

    def flag(self, table: Mapping[str, Any], key: str, where: str = "") -> bool:
        value = table.get(key, False)
        if not isinstance(value, bool):
            self.refuse(where, f"{key} is {value!r}. Write true or false.")
        return value

    def texts(self, table: Mapping[str, Any], key: str, where: str) -> list[str]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
            self.refuse(where, f'{key} must be a list of texts, such as {key} = ["one", "two"].')
        return value

    def section(self, table: Mapping[str, Any], key: str) -> dict[str, Any]:
        value = table.get(key, {})
        if not isinstance(value, dict):
            self.refuse("", f"{key} must be a table. Write its keys under [{key}].")
        return value


def _advice(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    return f"Did you mean {near[0]}?" if near else f"There are {', '.join(sorted(known))}."
