"""Penstock turns files into searchable knowledge: upload, extract, OCR, embed, search. Nothing lost, stuck or done twice."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.engine import Context as Context
    from penstock.engine import Gap as Gap
    from penstock.engine import Penstock as Penstock
    from penstock.errors import BadStep as BadStep
    from penstock.errors import ChildFailed as ChildFailed
    from penstock.errors import JobCancelled as JobCancelled
    from penstock.errors import JobDead as JobDead
    from penstock.errors import LeaseLost as LeaseLost
    from penstock.errors import Permanent as Permanent
    from penstock.errors import QueueFull as QueueFull
    from penstock.errors import RateLimited as RateLimited
    from penstock.errors import ResourceLimit as ResourceLimit
    from penstock.errors import Transient as Transient
    from penstock.errors import Unavailable as Unavailable

__version__ = "0.1.0"

_HOMES = dict.fromkeys(("Penstock", "Context", "Gap"), "penstock.engine") | dict.fromkeys(
    (
        "BadStep",
        "ChildFailed",
        "JobCancelled",
        "JobDead",
        "LeaseLost",
        "Permanent",
        "QueueFull",
        "RateLimited",
        "ResourceLimit",
        "Transient",
        "Unavailable",
    ),
    "penstock.errors",
)


def __getattr__(name: str) -> Any:
    """Import a public name when it is used: every module of the package passes through here first."""
    if name not in _HOMES:
        raise AttributeError(f"module penstock has no attribute {name}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, for interactive shells: those that no program has used are not imported yet."""
    return sorted(["__version__", *_HOMES])
