"""A machine on which somebody chose settings."""

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import BadSetting
from penstock.settings.loader import LoadedSettings, load_settings


class Machine:
    """A working folder, a home and an environment, as a person would set them up."""

    def __init__(self, root: Path) -> None:
        self.work, self.home = root / "work", root / "home"
        self.work.mkdir()
        self.home.mkdir()
        self.environ = {"PENSTOCK_HOME": str(self.home), "PATH": "/bin", "penstock_home": "ignored"}

    def write(self, text: str, folder: Path | None = None) -> Path:
        path = (folder or self.home) / "penstock.toml"
        path.write_text(text)
        return path

    def load(self, environ: dict[str, str] | None = None, **overrides: Any) -> LoadedSettings:
        return load_settings(working_folder=self.work, environ=self.environ | (environ or {}), **overrides)

    def refusal(self, environ: dict[str, str] | None = None, **overrides: Any) -> list[str]:
        with pytest.raises(BadSetting) as refused:
            self.load(environ, **overrides)
        return str(refused.value).splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
