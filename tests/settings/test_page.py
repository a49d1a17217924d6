import re

import pytest

from penstock.settings.loader import describe, variable
from penstock.settings.settings import FIELDS, SECTIONS
from tests.settings.conftest import Machine
from tools.settings import settings_page

CANARY = "kanarienvogel"


def test_describe(machine: Machine) -> None:
    machine.environ["PENSTOCK_DATABASE_URL"] = f"postgresql://ada:{CANARY}@db/x"
    rows = {row.key: row for row in describe(machine.load(postgres__durable=False, pool__call_timeout=90))}
    assert list(rows) == ["config", *FIELDS]
    assert rows["config"].value == f"{machine.home}/penstock.toml (does not exist)"
    assert (rows["database_url"].value, rows["database_url"].origin) == (
        "postgresql://ada:***@db/x",
        "PENSTOCK_DATABASE_URL",
    )
    assert (rows["postgres.durable"].value, rows["postgres.durable"].origin) == ("false", "argument")
    assert rows["pool.call_timeout"].value == "1m30s"
    assert rows["pool.hold_limit"].value == "not set"
    assert rows["home"].value == str(machine.home)
    assert CANARY not in repr(rows)


@pytest.mark.parametrize("key", FIELDS)
def test_every_setting_is_documented(key: str) -> None:
    doc = FIELDS[key].description
    assert doc is not None, f"{key} needs Field(description=…)"
    assert re.fullmatch(r"[A-Z][^\n|]+\.", doc), f"the description of {key} is not one plain sentence: {doc!r}"
    assert f"| `{key}` | `{variable(key)}` |" in settings_page()


def test_every_section_is_documented() -> None:
    assert all(f"## [{key}]\n\n{section.__doc__}\n" in settings_page() for key, section in SECTIONS.items())


def test_the_example_of_the_page_is_valid(machine: Machine) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", settings_page(), re.DOTALL)
    machine.write(example)
    assert machine.load().settings.pool.size == 16
