from typing import Any

import pytest
from pydantic import ValidationError

from penstock.settings.settings import Settings
from tests.settings.conftest import Machine


def test_settings_are_frozen(machine: Machine) -> None:
    with pytest.raises(ValidationError):
        machine.load().settings.pool.size = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (
            {"database_direct_url": "postgresql://db/x"},
            "database_direct_url (argument) needs database_url, which is not set. "
            "Set database_url too, or remove database_direct_url.",
        ),
        (
            {"database_owner_url": "postgresql://db/x"},
            "database_owner_url (argument) needs database_url, which is not set. "
            "Set database_url too, or remove database_owner_url.",
        ),
        (
            {"pool__size": 8, "pool__step": 9},
            "pool.step (argument) is 9, but pool.size (argument) is 8. Lower pool.step.",
        ),
        (
            {"pool__hold_limit": "100ms"},
            "pool.hold_limit (argument) is 100ms, but pool.hold_warning is 250ms. "
            "Raise pool.hold_limit or lower pool.hold_warning.",
        ),
        (
            {"pool__size": 96},
            "pool.size (argument) is 96, but postgres.max_connections is 100, of which 5 stay free. "
            "Lower pool.size or raise postgres.max_connections.",
        ),
        (
            {"postgres__port": 8080},
            "api.port and postgres.port (argument) are both 8080. Change one of them.",
        ),
    ],
)
def test_conflicts(machine: Machine, overrides: dict[str, Any], problem: str) -> None:
    assert machine.refusal(**overrides) == [problem]


def test_conflicts_of_the_embedded_server_do_not_matter_to_another_one(machine: Machine) -> None:
    machine.load(database_url="postgresql://db/x", pool__size=200, postgres__port=8080)
    machine.load(database_url="postgresql://db/x", database_direct_url="postgresql://db/y")
    machine.load(pool__size=95)
    machine.load(api__port=0, postgres__port=0)


def test_settings_made_without_loading_are_checked_as_well() -> None:
    with pytest.raises(ValidationError, match="needs database_url"):
        Settings.model_validate({"database_owner_url": "postgresql://db/x"})


def test_a_small_pool_needs_no_smaller_step(machine: Machine) -> None:
    assert machine.load(pool__size=2).settings.pool.step == 2
    assert machine.load(pool__size=9).settings.pool.step == 4


@pytest.mark.parametrize("text", ["128kB", "128MB", "2 GB", "4TB", "16384", "200000B"])
def test_memory(machine: Machine, text: str) -> None:
    assert machine.load(postgres__shared_buffers=text).settings.postgres.shared_buffers == text
