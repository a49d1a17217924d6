"""Parts of a test that are tried in full in `./dev test --all` only: parameters, and examples of properties."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

QUICK_EXAMPLES = 20  # of each property in `./dev test`; hypothesis has 100


def slow_but_first(values: Iterable[Any]) -> list[Any]:
    """Parameters of which the quick tests have the first."""
    first, *others = values
    return [first, *(pytest.param(each, marks=pytest.mark.slow) for each in others)]


def use_quick_examples() -> None:
    settings.register_profile("quick", parent=settings.default, max_examples=QUICK_EXAMPLES)
    settings.load_profile("quick")


def examples(count: int) -> int:
    """Examples of a property that needs another number than the others; a fifth of it in the quick tests."""
    return count if settings.get_current_profile_name() != "quick" else max(3, count // 5)
