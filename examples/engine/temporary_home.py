"""A temporary home for the examples, so that they leave nothing in the user's own."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHOSEN = ("PENSTOCK_HOME", "PENSTOCK_DATABASE_URL", "PENSTOCK_CONFIG")


@contextmanager
def temporary_home() -> Iterator[None]:
    """Work in a folder that is removed at the end, unless a home, a database or a settings file is chosen."""
    if any(os.environ.get(name) for name in CHOSEN):
        yield
        return
    home = Path(tempfile.mkdtemp(prefix="penstock-example-"))
    home.chmod(0o711)  # for root: the server runs under another account, which must reach it
    os.environ["PENSTOCK_HOME"] = str(home)
    print(f"Working in {home}, which is removed at the end; set PENSTOCK_HOME to choose a folder that stays.")
    try:
        yield
    finally:
        shutil.rmtree(home, ignore_errors=True)
