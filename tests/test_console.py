"""Each shell session of the docs runs as shown. tests/real/test_wheel.py does the same with the installed wheel."""

import sys
from pathlib import Path

import pytest

from tests.console import PAGES, run_page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_is_what_happens(page: Path, home: Path) -> None:
    run_page(page, home, Path(sys.executable).parent)
