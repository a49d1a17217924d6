"""Classification of the pages of a packet into parts, by rules and, if configured, by a hook.

A hook is a function of the user's that weighs each label of each page. It gets the pages and the labels, and returns for each
page a mapping from label to a log-weight, which is added to that of the rules: 0 means no opinion, 2.3 makes a label ten times
as likely. Its answer is checked. Without a hook the same pages and rules give the same parts.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import groupby, pairwise
from math import isfinite

from penstock.errors import BadSetting, JobFailure, Permanent
from penstock.pipelines.parts.features import PacketPage, PageFeatures, Part, read_features
from penstock.pipelines.parts.rules import Rules
from penstock.pipelines.parts.scores import score_pages
from penstock.pipelines.parts.segmentation import Costs, best_path, posteriors

Hook = Callable[[Sequence[PacketPage], Sequence[str]], Sequence[Mapping[str, float]]]
FAR = 50.0  # beyond all rules together
UNNAMED = 0.5  # the most confidence where nothing names a part


def load_hook(place: str) -> Hook:
    """Import `module:function`."""
    module_name, _, function = place.partition(":")
    if not module_name or not function.isidentifier():
        raise BadSetting(f"The hook {place!r} is not a function: write it as module:function, such as my.model:weigh.")
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


def ask_hook(hook: Hook, pages: Sequence[PacketPage], labels: Sequence[str]) -> list[list[float]]:
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


def _row(page: PacketPage, weights: object, labels: Sequence[str]) -> list[float]:
    where = f"The hook for parts gave, for page {page.number},"
    if not isinstance(weights, Mapping):
        raise Permanent(f"{where} a {type(weights).__name__}. It must give a mapping from labels to numbers.")
    for label, weight in weights.items():
        if label not in labels:
            raise Permanent(f"{where} the label {label!r}, which the rules do not have. They have {', '.join(labels)}.")
        if not _is_weight(weight):
            raise Permanent(f"{where} {weight!r} for {label}. A weight must be a finite number; 0 means no opinion.")
    return [max(-FAR, min(FAR, float(weights.get(label, 0)))) for label in labels]


def _is_weight(value: object) -> bool:
    """Any number that is a float in the end, numpy's too."""
    try:
        return not isinstance(value, bool | str) and isfinite(value)  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError):
        return False


def classify(pages: Sequence[PacketPage], rules: Rules, hook: Hook | None = None) -> list[Part]:
    """The parts of a packet in order; each page is in exactly one of them. The pages are numbered one by one."""
    if any(after.number != before.number + 1 for before, after in pairwise(pages)) or (pages and pages[0].number < 0):
        raise Permanent("The pages of a packet are not numbered one after the other. Give all of them, in their order.")
    features = [read_features(page, before) for page, before in zip(pages, [None, *pages], strict=False)]
    scores = score_pages(features, rules)
    if hook is not None and pages:
        added = ask_hook(hook, pages, rules.labels)
        scores = [[one + other for one, other in zip(*rows, strict=True)] for rows in zip(scores, added, strict=True)]
    steps = [
        rules.steps.between(_change(before, after, rules.costs, len(pages)), row)
        for (before, after), row in zip(pairwise(features), scores[1:], strict=True)
    ]
    begin = rules.steps.begin(scores[0]) if scores else []
    path, sure = best_path(scores, steps, begin), posteriors(scores, steps, begin)
    # A packet without any part is rare; one whose wording the rules do not know is not.
    most = 1.0 if hook or {rules.labels[place] for place in path} - {rules.cover, rules.other} else UNNAMED
    parts = []
    for place, group in groupby(zip(pages, path, sure, strict=True), key=lambda item: item[1]):
        members = list(group)
        confidence = sum(min(most, chances[place]) for _, _, chances in members) / len(members)
        parts.append(Part(rules.labels[place], members[0][0].number, members[-1][0].number, confidence))
    return parts


def _change(before: PageFeatures, after: PageFeatures, costs: Costs, pages: int) -> float:
    """What another label costs between two pages. Numbers that count the whole packet say nothing."""
    cost = costs.change
    if after.opens:
        cost -= costs.opening
    one, two = before.number, after.number
    if two is not None and two.pages != pages:
        if two.page == 1:
            cost -= costs.restart
        elif one is not None and two.page == one.page + 1 and two.pages == one.pages:
            cost += costs.going_on if two.pages else costs.going_on / 3
    return max(0.0, cost)
