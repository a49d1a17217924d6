"""What people see of the settings: the rows of `penstock config`, and docs/settings.md."""

from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter

from pydantic.fields import FieldInfo

from penstock.settings.model import FIELDS, SECTIONS, TABLES, Settings
from penstock.settings.section import Section
from penstock.settings.sources import Loaded, variable
from penstock.settings.values import format_duration


@dataclass(frozen=True)
class Described:
    """One row of `penstock config`."""

    key: str
    value: str
    origin: str


def describe(loaded: Loaded) -> list[Described]:
    """The effective settings in their order, with secrets masked."""
    return [Described(key, _text(attrgetter(key)(loaded.settings)), loaded.origins[key]) for key in FIELDS]


def _text(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):  # names and what they mean
        return ", ".join(value)
    return format_duration(value) if isinstance(value, timedelta) else str(value)


_PAGE = """\
# Settings

Penstock runs without any. What you choose is taken from the first of these places that has it:

1. an argument of the command or of `Penstock(…)`
2. an environment variable: `PENSTOCK_` and the key in capitals, with `__` for the dot (`PENSTOCK_POOL__SIZE=16`)
3. `penstock.toml` in the working folder
4. `penstock.toml` in the home folder (which therefore cannot set `home`)
5. the default

```toml
database_url = "postgresql://penstock:secret@db.example.org/penstock"

[pool]
size = 16
call_timeout = "10s"
```

A duration is written `250ms`, `10s`, `5m`, `2h`, `1d`, `1h30m`, or as a number of seconds, and a size `64kB`, `10MB`, `2GB`
or as a number of bytes. A relative path starts at
the folder of the file that has it, else at the working folder. An empty text means *not set* where that is possible. A
key or a `PENSTOCK_` variable that is not listed here is refused; only `PENSTOCK_TEST_…` is free for tests.

`penstock config` shows what is in effect and where each value came from, with passwords masked. This page is made by
`./dev run config --markdown > docs/settings.md`.
"""


def settings_page() -> str:
    """The text of docs/settings.md."""
    tables = [_table("", Settings), *(_table(f"{key}.", section) for key, section in SECTIONS.items())]
    tables += [_table(f"{key}.NAME.", section) for key, section in TABLES.items()]
    return "\n".join([_PAGE, *tables])


def _table(prefix: str, model: type[Section]) -> str:
    title = f"## [{prefix[:-1]}]\n\n{model.__doc__}\n" if prefix else "## At the top of the file\n"
    rows = [
        f"| `{prefix}{name}` | `{variable(prefix + name)}` | {_default(info)} | {info.description} |"
        for name, info in model.model_fields.items()
        if prefix + name in FIELDS or ".NAME." in prefix
    ]
    return "\n".join([title, "| key | variable | default | meaning |", "|---|---|---|---|", *rows, ""])


def _default(info: FieldInfo) -> str:
    if isinstance(info.json_schema_extra, dict):
        return str(info.json_schema_extra["shown"])
    return f"`{_text(info.default)}`" if info.default not in (None, "") else "not set"
