"""The rules file: labels, what speaks for them, and what a change of label costs.

A rule adds its weight to its label on each page that it fits. Weights are log-odds, so several weak hints make a strong
one. The built-in rules are in rules.toml, beside this module; a file of one's own replaces them, or adds to them with
`extends = true`. What is wrong with a file is told in one sentence: file, rule, fix.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from penstock.pipelines.parts.file import HEAVIEST, RulesFile
from penstock.pipelines.parts.leaf import ZONES
from penstock.pipelines.parts.noise import Lexicon, plain, shape
from penstock.pipelines.parts.pattern import compile_pattern
from penstock.pipelines.parts.sequence import Costs, Steps

BUILT_IN = Path(__file__).with_name("rules.toml")
PAGES = ("any", "first", "later", "first-of-document")
OF_KIND = {
    "marker": {"words", "letters", "where"},
    "pattern": {"pattern", "where"},
    "keywords": {"keywords", "where", "least"},
    "layout": {"feature", "min", "max"},
}
OF_ALL = {"name", "label", "kind", "weight", "page", "fallback"}
OF_FILE = {"extends", "without", "labels", "cover", "other", "sequence", "rule"}
FEATURES = (
    *("lines", "characters", "words_per_line", "digit_share", "capital_share", "short_line_share", "form_share"),
    *("prose_share", "leader_lines", "blank", "titled", "flowing", "listed", "unheaded"),
)
MOST_RULES = 1_000


@dataclass(frozen=True)
class Rule:
    """One rule; which of the lower fields it uses is a matter of its kind."""

    name: str
    label: str
    kind: str
    weight: float
    page: str = "any"
    where: str = "anywhere"
    fallback: bool = False  # counts only in packets in which no other marker names a part
    words: frozenset[str] = frozenset()  # of a marker, as shapes
    letters: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    keywords: tuple[tuple[str, ...], ...] = ()  # phrases, as shapes
    least: int = 1  # of the keywords, for the whole weight
    feature: str = ""
    low: float = float("-inf")
    high: float = float("inf")


@dataclass(frozen=True)
class Rules:
    """A file that was found good."""

    labels: tuple[str, ...]
    cover: str
    other: str
    costs: Costs
    rules: tuple[Rule, ...]
    lexicon: Lexicon = field(repr=False, compare=False)

    @property
    def steps(self) -> Steps:
        return Steps(self.costs, self.labels, self.cover, self.other)

    def of_kind(self, kind: str) -> list[Rule]:
        return [rule for rule in self.rules if rule.kind == kind]


def load_rules(path: Path | None) -> Rules:
    """Read and check a rules file; None stands for the built-in rules."""
    file = _Judge(BUILT_IN if path is None else path)
    table = file.read()
    file.check_keys(table, OF_FILE, "")
    if file.flag(table, "extends"):
        below = _Judge(BUILT_IN).read()
        known = {rule["name"] for rule in below["rule"]}
        for name in (gone := file.texts(table, "without", "")):
            file.check_known(name, known, ", without", "the name of a built-in rule")
        kept = [rule for rule in below["rule"] if rule["name"] not in gone]
        sequence = {**below["sequence"], **file.section(table, "sequence")}
        table = {**below, **table, "rule": [*file.rules(table), *kept], "sequence": sequence}
    elif "without" in table:
        file.refuse("", "without takes rules from the built-in ones. Write extends = true, too, or remove it.")
    return file.judge(table)


class _Judge(RulesFile):
    """Makes rules of what a file says."""

    def judge(self, table: Mapping[str, Any]) -> Rules:
        labels = tuple(self.texts(table, "labels", ""))
        if len(labels) < 2 or len(set(labels)) != len(labels):
            self.refuse("", 'labels must be at least two different names, such as ["cover", "A", "B", "other"].')
        special = {key: table.get(key, key) for key in ("cover", "other")}
        for key, label in special.items():
            if label not in labels:
                self.refuse(
                    "", f"{key} is {label!r}, which is not one of the labels. Write one of {', '.join(labels)}."
                )
        entries = self.rules(table)
        if not entries or len(entries) > MOST_RULES:
            self.refuse("", f"it has {len(entries):,} rules. Write 1 to {MOST_RULES:,} of them, each under [[rule]].")
        rules = tuple(self.rule(entry, f", rule {number}", labels) for number, entry in enumerate(entries, 1))
        words = {
            word for rule in rules for word in (*rule.words, *(word for phrase in rule.keywords for word in phrase))
        }
        return Rules(labels, special["cover"], special["other"], self.costs(table), rules, Lexicon(words))

    def rules(self, table: Mapping[str, Any]) -> list[dict[str, Any]]:
        entries = table.get("rule", [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            self.refuse("", "rule must be a list of tables. Begin each rule with [[rule]].")
        return entries

    def costs(self, table: Mapping[str, Any]) -> Costs:
        given = self.section(table, "sequence")
        known = {cost.name for cost in fields(Costs)}
        self.check_keys(given, known, ", [sequence]")
        return Costs(**{key: self.number(given, key, ", [sequence]", low=0) for key in given})

    def rule(self, entry: Mapping[str, Any], where: str, labels: Sequence[str]) -> Rule:
        if isinstance(entry.get("name"), str):
            where += f" ({entry['name']})"
        kind = self.choice(entry, "kind", where, tuple(OF_KIND), None)
        self.check_keys(entry, OF_ALL | OF_KIND[kind], where)
        known = {
            "name": entry.get("name", ""),
            "label": self.choice(entry, "label", where, labels, None),
            "kind": kind,
            "weight": self.number(entry, "weight", where, low=-HEAVIEST),
            "page": self.choice(entry, "page", where, PAGES, "any"),
            "where": self.choice(entry, "where", where, ZONES, "anywhere"),
            "fallback": self.flag(entry, "fallback", where),
        }
        return Rule(**known, **getattr(self, f"_{kind}")(entry, where))

    def _marker(self, entry: Mapping[str, Any], where: str) -> dict[str, Any]:
        letters = self.texts(entry, "letters", where)
        if not letters:
            self.refuse(where, 'a marker needs letters, such as letters = ["B"].')
        return {"words": frozenset(map(shape, self.texts(entry, "words", where))), "letters": frozenset(letters)}

    def _pattern(self, entry: Mapping[str, Any], where: str) -> dict[str, Any]:
        text = entry.get("pattern")
        if not isinstance(text, str) or not text:
            self.refuse(where, "a rule of the kind pattern needs a pattern, such as pattern = '^form b-\\d'.")
        return {"pattern": compile_pattern(text, f"The rules file {self.path}{where}")}

    def _keywords(self, entry: Mapping[str, Any], where: str) -> dict[str, Any]:
        phrases = [
            tuple(shape(word) for word in re.findall(r"\w+", plain(text)))
            for text in self.texts(entry, "keywords", where)
        ]
        if not phrases or not all(phrases):
            self.refuse(where, 'keywords must be words or phrases, such as keywords = ["cover sheet"].')
        least = self.number(entry, "least", where, low=1, high=len(phrases)) if "least" in entry else 1
        return {"keywords": tuple(phrases), "least": int(least)}

    def _layout(self, entry: Mapping[str, Any], where: str) -> dict[str, Any]:
        feature = self.choice(entry, "feature", where, FEATURES, None)
        limits = {key: self.number(entry, key, where, low=0, high=10**9) for key in ("min", "max") if key in entry}
        low, high = limits.get("min", 0.0), limits.get("max", float("inf"))
        if not limits or low > high:
            self.refuse(
                where, f"the range of {feature} holds nothing or everything. Give min, max or both, min not above max."
            )
        return {"feature": feature, "low": low, "high": high}
