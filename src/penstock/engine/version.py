"""The version of the code and settings of this process, a digest that is kept with every failure.

People fix a job by changing a file or a setting, and often forget to raise a version number. So the version is a digest
of what was imported: the whole top-level package in which a handler is declared, or its file alone if that is in no package
(a folder of scripts may hold anything); and of the settings, without addresses, which differ from machine to machine. Files
are read when the handler is declared: later they may hold code that this process does not run.
"""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import __version__
from penstock.settings import Settings

NOT_COUNTED = {"home", "database_url", "database_direct_url", "database_owner_url", "api", "log"}

_digests: dict[str, str] = {}  # by module, of everything that declares jobs in this process


def note_code(handler: Callable[..., Any]) -> None:
    """Remember the source in which a handler is declared."""
    top = handler.__module__.partition(".")[0]
    package = sys.modules.get(top)
    folders = [Path(folder) for folder in getattr(package, "__path__", [])]
    name = top if folders else handler.__module__
    if name not in _digests:
        files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
        _digests[name] = _digest(files or [Path(getattr(sys.modules.get(name), "__file__", None) or "")])


def _digest(files: list[Path]) -> str:
    read = hashlib.sha256()
    for file in files:
        if file.is_file():  # not what was typed into an interpreter
            read.update(file.read_bytes())
    return read.hexdigest()


def code_version(settings: Settings) -> str:
    """The version of this process, for example 0.1.0+2f6c01d9a4b3."""
    read = hashlib.sha256(settings.model_dump_json(exclude=NOT_COUNTED).encode())
    for name in sorted(_digests):
        read.update(f"\0{name}\0{_digests[name]}".encode())
    return f"{__version__}+{read.hexdigest()[:12]}"
