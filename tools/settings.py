"""The page docs/settings.md: every setting with its variable, default and description."""

from pydantic.fields import FieldInfo

from penstock.settings import Section, Settings
from penstock.settings.loader import format_value, variable
from penstock.settings.settings import FIELDS, SECTIONS, TABLES

_PAGE = """\
# Settings

Penstock runs without any. What you choose is taken from the first of these places that has it:

1. an argument of the command or of `Penstock(…)`
2. an environment variable: `PENSTOCK_` and the key in capitals, with `__` for the dot (`PENSTOCK_POOL__SIZE=16`)
3. the settings file: `penstock.toml` in the home folder (which therefore cannot set `home`), or the file that
   `penstock --config FILE`, `PENSTOCK_CONFIG` or `Penstock(config=…)` names in its place
4. the default

A `penstock.toml` in the working folder is not read unless it is named: a folder that came from elsewhere could name programs
to run.

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

`penstock config` shows the settings file, what is in effect and where each value came from, with passwords masked. This page
is made by `./dev generate`.
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
    return f"`{format_value(info.default)}`" if info.default not in (None, "") else "not set"
