"""The names that an application imports from `penstock`."""

import ast
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Penstock
from penstock.errors import BadSetting


def test_dir_lists_the_public_names() -> None:
    tree = ast.parse(Path(penstock.__file__).read_text())
    typed = {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}
    typed -= {"TYPE_CHECKING", "Any"}
    assert "Penstock" in typed
    assert dir(penstock) == sorted(["__version__", *typed])
    for name in dir(penstock):
        assert getattr(penstock, name) is not None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"hom": "x"}, "hom (argument) is not a setting. Did you mean home?"),
        ({"api__prt": 1}, "api.prt (argument) is not a setting. Did you mean api__port?"),
        ({"api": {"prt": 1}}, "api.prt (argument) is not a setting. Did you mean api__port?"),
        (
            {"database": "postgresql://me:secret@host/x"},
            "database (argument) is not a setting. Did you mean database_url?",
        ),
        ({"pool": 5}, "pool (argument) is a section, not a value. Set one of its keys, such as pool__size."),
        ({"quite": "different"}, "quite (argument) is not a setting. docs/settings.md lists all settings."),
    ],
)
def test_an_unknown_setting_is_refused_at_once(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadSetting) as refused:
        Penstock(**given)
    assert str(refused.value).startswith(sentence)
    assert "secret" not in str(refused.value)


def test_known_settings_are_read_when_they_are_needed() -> None:
    """A module that declares jobs can be imported where the database is not configured yet."""
    app = Penstock(api__port="not a number", home=None)
    with pytest.raises(BadSetting, match=r"api\.port \(argument\) is 'not a number', but must be a whole number"):
        _ = app.settings
