"""A model of somebody else's beside the rules: a function that weighs each label of each page.

It gets the pages and the labels, and gives for each page a mapping from label to a log-weight, which is added to what the rules
say: 0 is no opinion, 2.3 makes a label ten times as likely. What it gives is checked; what it raises becomes a sentence.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from math import isfinite

from penstock.errors import BadSetting, JobFailure, Permanent
from penstock.pipelines.parts.page import PageText

Hook = Callable[[Sequence[PageText], Sequence[str]], Sequence[Mapping[str, float]]]
FAR = 50.0  # beyond all rules together


def load_hook(place: str) -> Hook:
    """Import `module:function`."""
    module_name, _, function = place.partition(":")
    if not module_name or not function.isidentifier():
        raise BadSetting(
            f"The hook {place!r} is no place in a program. Write it as module:function, such as my.model:weigh."
        )
    try:
        module = import_module(module_name)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise BadSetting(f"The hook {place} cannot be imported: {said}. Install it, or correct its name.") from error
    hook: Hook | None = getattr(module, function, None)
    if not callable(hook):
        raise BadSetting(
            f"The hook {place} does not exist: {module_name} has no function {function}. Correct its name."
        )
    return hook


def ask_hook(hook: Hook, pages: Sequence[PageText], labels: Sequence[str]) -> list[list[float]]:
    """A row for each page, in the order of the labels."""
    try:
        answer: object = hook(pages, labels)
    except (JobFailure, OSError):
        raise  # it says itself whether to come again; a connection may work next time
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise Permanent(f"The hook for parts failed with {said}. Correct it, or run without it.") from error
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes) or len(answer) != len(pages):
        got = f"{len(answer)} answers" if isinstance(answer, Sequence) else f"a {type(answer).__name__}"
        raise Permanent(
            f"The hook for parts gave {got} for {len(pages)} pages. It must give one mapping for each page."
        )
    return [_row(page, weights, labels) for page, weights in zip(pages, answer, strict=True)]


def _row(page: PageText, weights: object, labels: Sequence[str]) -> list[float]:
    where = f"The hook for parts gave, for page {page.number},"
    if not isinstance(weights, Mapping):
        raise Permanent(f"{where} a {type(weights).__name__}. It must give a mapping from labels to numbers.")
    for label, weight in weights.items():
        if label not in labels:
            raise Permanent(f"{where} the label {label!r}, which the rules do not have. They have {', '.join(labels)}.")
        if not _is_weight(weight):
            raise Permanent(f"{where} {weight!r} for {label}. A weight must be a finite number; 0 is no opinion.")
    return [max(-FAR, min(FAR, float(weights.get(label, 0)))) for label in labels]


def _is_weight(value: object) -> bool:
    """Any number that is a float in the end, numpy's too."""
    try:
        return not isinstance(value, bool | str) and isfinite(value)  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError):
        return False
