from pathlib import Path

import pytest

from penstock.errors import BadSetting
from penstock.settings import load_settings
from penstock.settings.web import FetchSettings


def load(tmp_path: Path, toml: str, **environ: str) -> FetchSettings:
    (tmp_path / "penstock.toml").write_text(toml)
    return load_settings(working_folder=tmp_path, environ=environ, home=tmp_path).settings.fetch


def test_nothing_private_by_default(tmp_path: Path) -> None:
    settings = load(tmp_path, "")
    assert (settings.port_numbers, settings.private_entries) == (frozenset({80, 443}), [])


def test_lists_in_a_file(tmp_path: Path) -> None:
    settings = load(tmp_path, '[fetch]\nports = [80, 8080]\nprivate = ["intranet", "10.1.0.0/16", "fd00::7"]')
    assert settings.port_numbers == {80, 8080}
    assert settings.private_entries == ["intranet", "10.1.0.0/16", "fd00::7"]


def test_lists_in_variables(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        '[fetch]\nports = 80\nprivate = "a.example"',
        PENSTOCK_FETCH__PORTS="443,8443",
        PENSTOCK_FETCH__PRIVATE="",
    )
    assert (settings.port_numbers, settings.private) == (frozenset({443, 8443}), None)


@pytest.mark.parametrize(
    ("toml", "why"),
    [
        ("ports = []", "not a list of ports"),
        ('ports = "http"', "not a list of ports"),
        ("ports = [0]", "not a list of ports"),
        ("ports = [65536]", "not a list of ports"),
        ("ports = true", "text, such as 80, 443"),
        ('private = "10.1.2.3/16"', "neither a host nor a network"),
        ('private = "http://a"', "neither a host nor a network"),
        ('private = ["a", "*"]', "neither a host nor a network"),
        ("redirects = 21", "from 0 to 20"),
    ],
)
def test_wrong_values(tmp_path: Path, toml: str, why: str) -> None:
    with pytest.raises(BadSetting, match=why):
        load(tmp_path, f"[fetch]\n{toml}")
