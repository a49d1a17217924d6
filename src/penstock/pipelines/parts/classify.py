"""From the text of the pages of a packet to its parts. Pure: the same pages and rules give the same parts."""

from collections.abc import Sequence
from itertools import groupby, pairwise

from penstock.errors import Permanent
from penstock.pipelines.parts.hook import Hook, ask_hook
from penstock.pipelines.parts.leaf import Leaf, open_leaf
from penstock.pipelines.parts.page import PageText, Part
from penstock.pipelines.parts.rules import Rules
from penstock.pipelines.parts.score import score_pages
from penstock.pipelines.parts.sequence import Costs, best_path, posteriors

UNNAMED = 0.5  # the most confidence where nothing names a part


def classify(pages: Sequence[PageText], rules: Rules, hook: Hook | None = None) -> list[Part]:
    """The parts of a packet in order; each page is in exactly one of them. The pages are numbered one by one."""
    if any(after.number != before.number + 1 for before, after in pairwise(pages)) or (pages and pages[0].number < 0):
        raise Permanent("The pages of a packet are not numbered one after the other. Give all of them, in their order.")
    leaves = [open_leaf(page, before) for page, before in zip(pages, [None, *pages], strict=False)]
    scores = score_pages(leaves, rules)
    if hook is not None and pages:
        added = ask_hook(hook, pages, rules.labels)
        scores = [[one + other for one, other in zip(*rows, strict=True)] for rows in zip(scores, added, strict=True)]
    steps = [
        rules.steps.between(_change(before, after, rules.costs, len(pages)), row)
        for (before, after), row in zip(pairwise(leaves), scores[1:], strict=True)
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


def _change(before: Leaf, after: Leaf, costs: Costs, pages: int) -> float:
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
