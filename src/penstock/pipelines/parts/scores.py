"""Scores of each page for each label: all rules on all pages, before the pages are seen as a sequence."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.pipelines.parts.features import PageFeatures
from penstock.pipelines.parts.fuzzy import shape
from penstock.pipelines.parts.markers import ANY, Marker, Sought, confirm_marks, find_marks
from penstock.pipelines.parts.rules import Rule, Rules

GLUED = 9  # letters: a shorter phrase may by chance be a piece of a longer word
Phrase = tuple[str, ...]


@dataclass(frozen=True)
class PageView:
    page: PageFeatures
    marks: list[Marker]
    phrases: dict[Phrase, set[int]]  # with the lines that they are in
    layout: dict[str, float]


def score_pages(pages: Sequence[PageFeatures], rules: Rules) -> list[list[float]]:
    """A row for each page, in the order of the labels."""
    views = list(_views(pages, rules))
    named = _named(views, rules)
    used = [rule for rule in rules.rules if not (rule.fallback and named)]
    rows = []
    for view in views:
        row = dict.fromkeys(rules.labels, 0.0)
        for rule in used:
            row[rule.label] += rule.weight * _fits(rule, view)
        rows.append(list(row.values()))
    return rows


def _named(views: Sequence[PageView], rules: Rules) -> bool:
    """Whether a word names a part somewhere, or codes name two of them; a single code may be a person's initial."""
    fitting = [
        rule for rule in rules.of_kind("marker") if not rule.fallback and any(_fits(rule, view) for view in views)
    ]
    named = {rule.label for rule in fitting} - {rules.other}
    return len(named) > 1 or any(rule.words for rule in fitting if rule.label in named)


def _views(pages: Sequence[PageFeatures], rules: Rules) -> Iterator[PageView]:
    markers = rules.of_kind("marker")
    words = {word for rule in markers for word in rule.words}
    letters = {letter for rule in markers for letter in rule.letters}
    sought = Sought(rules.lexicon, words, letters)
    starts: dict[str, set[Phrase]] = defaultdict(set)
    for rule in rules.of_kind("keywords"):
        for phrase in rule.keywords:
            starts[phrase[0]].add(phrase)
    headed = False
    found = confirm_marks([find_marks(page, sought) for page in pages])
    for page, marks in zip(pages, found, strict=True):
        layout = page.layout()
        layout["listed"] = len({mark.letter for mark in marks if not mark.counts and not mark.doubtful})
        layout["unheaded"] = float(headed and not any(mark.running for mark in marks))
        headed = any(mark.running and mark.numbered for mark in marks)
        yield PageView(page, marks, _phrases(page, rules, starts), layout)


def _phrases(page: PageFeatures, rules: Rules, starts: dict[str, set[Phrase]]) -> dict[Phrase, set[int]]:
    found: dict[Phrase, set[int]] = defaultdict(set)
    for place, line in enumerate(page.lines):
        near = [rules.lexicon.near(token) for token in line.tokens if token[0].isalnum()]
        for at, words in enumerate(near):
            for phrase in (phrase for word in words for phrase in starts.get(word, ())):
                if len(near) - at >= len(phrase) and all(word in near[at + n] for n, word in enumerate(phrase)):
                    found[phrase].add(place)
        if page.is_in(place, "title"):
            whole = "".join(shape(token) for token in line.tokens if token[0].isalnum())
            for phrase in (phrase for several in starts.values() for phrase in several):
                if len(together := "".join(phrase)) >= GLUED and together in whole:
                    found[phrase].add(place)
    return found


def _fits(rule: Rule, view: PageView) -> float:
    """From 0, not at all, to 1."""
    page = view.page
    if not {"any": True, "first": page.first, "later": not page.first, "first-of-document": page.opens}[rule.page]:
        return 0.0
    if rule.kind == "layout":
        return float(rule.low <= view.layout[rule.feature] <= rule.high)
    if rule.kind == "keywords":
        seen = sum(
            any(_is_there(page, place, rule) for place in view.phrases.get(phrase, ())) for phrase in rule.keywords
        )
        return min(1.0, seen / rule.least)
    if rule.pattern is not None:
        lines = (line for place, line in enumerate(page.lines) if page.is_in(place, rule.where))
        return float(any(rule.pattern.search(line.text) or rule.pattern.search(line.raw) for line in lines))
    return max((_weighed(rule, mark, page) for mark in view.marks), default=0.0)


def _is_there(page: PageFeatures, place: int, rule: Rule) -> bool:
    """A field of a form is not a title: `Passport number: …`."""
    return page.is_in(place, rule.where) and not (rule.where == "title" and page.lines[place].field)


def _weighed(rule: Rule, mark: Marker, page: PageFeatures) -> float:
    word = ANY if mark.word.startswith(ANY) else mark.word
    if mark.letter not in rule.letters or (word not in rule.words if rule.words else bool(word)):
        return 0.0
    here = mark.running if rule.where == "edges" else mark.heading and page.is_in(mark.line, rule.where)
    return (0.5 if mark.doubtful else 1.0) * here
