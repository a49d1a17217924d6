"""The loader: reads settings from arguments, variables and a file, merged key by key, and lists the result.

An argument beats a `PENSTOCK_A__B` variable, which beats the file, which beats the default. The file is `penstock.toml` in
home, or the one that `config=` or PENSTOCK_CONFIG names. A file of the working folder is never read unasked: a folder that
came from elsewhere could name programs to run. `load_settings` reports all problems at once, each with its place and the fix;
an unknown key is a problem. `describe` returns the rows of `penstock config`.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from difflib import get_close_matches
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import SecretStr, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from penstock.errors import BadSetting
from penstock.settings.settings import FIELDS, SECTIONS, TABLES, Settings, default_home, find_field
from penstock.settings.types import DatabaseUrl, Folder, format_duration, mask_credentials

CONFIG = "PENSTOCK_CONFIG"
NOT_SETTINGS = {CONFIG, "PENSTOCK_URL", "PENSTOCK_KEY"}  # the last two are of penstock.client
FILE = "penstock.toml"


@dataclass(frozen=True)
class LoadedSettings:
    """Valid settings, the file that was read, and for each dotted key the place that decided it."""

    settings: Settings
    origins: dict[str, str]
    file: "SettingsFile"


@dataclass(frozen=True)
class SettingsFile:
    """The one file from which settings are read; that of home need not exist."""

    path: Path
    origin: str  # argument, PENSTOCK_CONFIG or default

    def __str__(self) -> str:
        return str(self.path) if self.path.exists() else f"{self.path} (does not exist)"


@dataclass(frozen=True)
class _Entry:
    """One key as it was written, known or not."""

    key: str
    value: object = field(repr=False)
    written: str  # the key in its own spelling
    name: str  # the same with its place, to begin a sentence
    origin: str
    folder: Path  # where a relative path starts

    def spell(self, key: str) -> str:
        if self.origin == "argument":
            return key.replace(".", "__")
        return variable(key) if self.written.startswith("PENSTOCK_") else key


def variable(key: str) -> str:
    return "PENSTOCK_" + key.upper().replace(".", "__")


def load_settings(
    *,
    config: str | Path | None = None,
    working_folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    **overrides: object,
) -> LoadedSettings:
    """Read all places; an override is `home=…`, `api__port=…` or `api={"port": …}`, and None means not given.

    `config` names the settings file in place of that of home.
    """
    folder = _working_folder() if working_folder is None else working_folder.absolute()
    environ = os.environ if environ is None else environ
    problems: list[str] = []
    given = _accepted(_environment_entries(environ, folder), problems)
    given |= _accepted(_argument_entries(overrides, folder), problems)

    file = _find_file(config, environ, folder, given)
    written = {} if file is None else _accepted(_file_entries(file, problems), problems)
    if "home" in written and file is not None and file.origin == "default":
        problems.append(
            f"{written['home'].name} cannot be set there, because that file is found through home. "
            "Remove it and set PENSTOCK_HOME."
        )
    given = written | given

    settings = _validated(given, problems)
    if settings is None or file is None or problems:
        raise BadSetting("\n".join(mask_credentials(problem) for problem in problems))
    origins = {key: given[key].origin if key in given else "default" for key in FIELDS}
    origins |= {key: entry.origin for key, entry in given.items() if key not in FIELDS}
    return LoadedSettings(settings, origins, file)


def check_arguments(overrides: Mapping[str, object]) -> None:
    """Refuse overrides that are not settings, before any variable or file is read."""
    problems: list[str] = []
    settings = {name: value for name, value in overrides.items() if name != "config"}
    _accepted(_argument_entries(settings, Path()), problems)
    if problems:
        raise BadSetting("\n".join(mask_credentials(problem) for problem in problems))


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise BadSetting("The working folder does not exist any more. Change to another folder.") from None


def _find_file(
    config: str | Path | None, environ: Mapping[str, str], folder: Path, given: Mapping[str, _Entry]
) -> SettingsFile | None:
    """The named file, or that of home; None when home is not a path, which validation reports."""
    if config:
        return SettingsFile(folder / config, "argument")
    if named := environ.get(CONFIG):
        return SettingsFile(folder / named, CONFIG)
    if "home" not in given:
        return SettingsFile(default_home() / FILE, "default")
    try:
        return SettingsFile(TypeAdapter(Folder).validate_python(given["home"].value) / FILE, "default")
    except ValidationError:
        return None


def _file_entries(file: SettingsFile, problems: list[str]) -> Iterator[_Entry]:
    path = file.path
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if file.origin != "default":
            problems.append(f"The settings file {path} does not exist. Create it, or correct --config or {CONFIG}.")
    except OSError as error:
        problems.append(f"{path} cannot be read: {error.strerror}. Correct its permissions, or remove it.")
    except UnicodeDecodeError:
        problems.append(f"{path} is not UTF-8 text. Save it as UTF-8.")
    except tomllib.TOMLDecodeError as error:
        problems.append(f"{path} is not valid TOML: {error}. Correct that line.")
    else:
        for key, value in _pairs(table):
            yield _Entry(key, value, key, f"{key} in {path}", str(path), path.parent)


def _environment_entries(environ: Mapping[str, str], folder: Path) -> Iterator[_Entry]:
    for name, text in sorted(environ.items()):
        if name.startswith("PENSTOCK_") and not name.startswith("PENSTOCK_TEST_") and name not in NOT_SETTINGS:
            key = name.removeprefix("PENSTOCK_").lower().replace("__", ".")
            yield _Entry(key, text, name, name, name, folder)


def _argument_entries(overrides: Mapping[str, object], folder: Path) -> Iterator[_Entry]:
    for key, value in _pairs({name.replace("__", "."): value for name, value in overrides.items()}):
        if value is not None:
            yield _Entry(key, value, key.replace(".", "__"), f"{key} (argument)", "argument", folder)


def _pairs(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Flatten the tables of sections that exist; any other table stays one value, to be refused as such."""
    for name, value in table.items():
        if isinstance(value, Mapping) and (prefix + name in {*SECTIONS, *TABLES} or prefix[:-1] in TABLES):
            yield from _pairs(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _accepted(entries: Iterator[_Entry], problems: list[str]) -> dict[str, _Entry]:
    accepted = {}
    for entry in entries:
        if problem := _refusal(entry):
            problems.append(problem)
        else:
            accepted[entry.key] = _anchored(entry)
    return accepted


def _refusal(entry: _Entry) -> str | None:
    if entry.written != entry.spell(entry.key) or (entry.key not in SECTIONS and find_field(entry.key) is None):
        return f"{entry.name} is not a setting. {_advice(entry)}"
    if entry.key in SECTIONS:
        example = entry.spell(f"{entry.key}.{next(iter(SECTIONS[entry.key].model_fields))}")
        return f"{entry.name} is a section, not a value. Set one of its keys, such as {example}."
    if isinstance(entry.value, Mapping) and get_origin(_field(entry.key).annotation) is not dict:
        return f"{entry.name} is a value, not a table. Write {entry.key.rpartition('.')[2]} = … in its place."
    return None


def _advice(entry: _Entry) -> str:
    near: list[str] = get_close_matches(entry.key.lower(), [*FIELDS, *SECTIONS], n=1)
    near = near or [key for key in FIELDS if key.rpartition(".")[2] == entry.key.rpartition(".")[2]]
    if near:
        return f"Did you mean {' or '.join(map(entry.spell, near))}?"
    return "docs/settings.md lists all settings."


def _anchored(entry: _Entry) -> _Entry:
    """A relative path starts where it was written, not where the process runs."""
    value = entry.value
    if Path not in _kinds(_field(entry.key)) or not isinstance(value, str | Path) or not str(value).strip():
        return entry
    path = entry.folder / value if not str(value).startswith("~") else Path(value)
    return replace(entry, value=path)


def _validated(given: Mapping[str, _Entry], problems: list[str]) -> Settings | None:
    tree: dict[str, Any] = {}
    for key, entry in given.items():
        *sections, name = key.split(".")
        table = tree
        for section in sections:
            table = table.setdefault(section, {})
        table[name] = entry.value
    try:
        return Settings.model_validate(tree, context={"names": {key: entry.name for key, entry in given.items()}})
    except ValidationError as error:
        for details in error.errors(include_url=False):
            problems.extend(_sentences(details, given))
    return None


def _sentences(details: ErrorDetails, given: Mapping[str, _Entry]) -> Iterator[str]:
    """Our own words for what pydantic found: its messages quote values and do not know where they came from."""
    own = str(details["ctx"]["error"]) if details["type"] == "value_error" else ""
    key = ".".join(str(part) for part in details["loc"])
    if not key:
        yield from own.splitlines()
    elif key in given:  # else a default that could not be computed from a wrong value, which has its own line
        entry, info = given[key], _field(key)
        is_value = "" if _is_secret(info) else f" is {_shortened(entry.value)}, but"
        yield f"{entry.name}: {own}" if own else f"{entry.name}{is_value} must be {_expected(info)}."


def _is_secret(info: FieldInfo) -> bool:
    return not {DatabaseUrl, SecretStr}.isdisjoint(_kinds(info))


def _shortened(value: object) -> str:
    text = mask_credentials(repr(value))
    return text if len(text) <= 60 else text[:59] + "…"


def _expected(info: FieldInfo) -> str:
    if get_origin(info.annotation) is Literal:
        return "one of " + ", ".join(get_args(info.annotation))
    if bool in (kinds := _kinds(info)):
        return "true or false"
    if int in kinds:
        low, high = (next(getattr(m, side) for m in info.metadata if hasattr(m, side)) for side in ("ge", "le"))
        return f"a whole number from {low} to {high}"
    if Path in kinds:
        return "the path of a folder"
    if DatabaseUrl in kinds:
        return "text, such as postgresql://user@host:5432/name"
    return f"text, such as {info.examples[0] if info.examples else info.default}"


def _field(key: str) -> FieldInfo:
    """Of a key that was accepted."""
    info = find_field(key)
    if info is None:
        raise KeyError(key)
    return info


def _kinds(info: FieldInfo) -> tuple[object, ...]:
    """The types that a field takes, without Annotated: `Folder | None` gives (Path, NoneType)."""
    parts = get_args(info.annotation) if get_origin(info.annotation) is not Literal else ()
    return tuple(get_args(part)[0] if get_origin(part) is Annotated else part for part in parts or (info.annotation,))


@dataclass(frozen=True)
class EffectiveSetting:
    """One row of `penstock config`."""

    key: str
    value: str
    origin: str


def describe(loaded: LoadedSettings) -> list[EffectiveSetting]:
    """The settings file and the effective settings in their order, with secrets masked."""
    return [
        EffectiveSetting("config", str(loaded.file), loaded.file.origin),
        *(EffectiveSetting(key, format_value(attrgetter(key)(loaded.settings)), loaded.origins[key]) for key in FIELDS),
    ]


def format_value(value: object) -> str:
    """The value as it is written in a settings file, or "not set"."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):  # names and what they mean
        return ", ".join(value)
    return format_duration(value) if isinstance(value, timedelta) else str(value)
