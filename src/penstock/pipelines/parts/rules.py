"""The rules file: labels, what speaks for them, and what a change of label costs.

A rule adds its weight to its label on each page that it fits. Weights are log-odds, so several weak hints make a strong
one. The built-in rules are in rules.toml, next to this module; a file of one's own replaces them, or adds to them with
`extends = true`. What is wrong with a file is told in one sentence: file, rule, fix.
"""

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, NoReturn

from penstock.errors import BadSetting
from penstock.pipelines.parts.features import LINE, ZONES
from penstock.pipelines.parts.fuzzy import Lexicon, plain, shape
from penstock.pipelines.parts.segmentation import Costs, StepCosts

MOST_WAYS = 10**6  # to match a pattern on one line: it must not be able to stop a worker
LONGEST = 1_000  # characters of a pattern
SPACES = 2  # lines have single spaces
HEAVIEST = 50.0  # a weight beyond all doubt
MOST_RULES = 1_000
BUILT_IN = Path(__file__).with_name("rules.toml")


def compile_pattern(text: str, name: str) -> re.Pattern[str]:
    """Compile it, ignoring case; `name` begins the sentence when it cannot be used."""
    if len(text) > LONGEST:
        raise BadSetting(f"{name}: the pattern is longer than {LONGEST:,} characters. Divide it into several rules.")
    try:
        ways = _ways(_parser.parse(text, re.IGNORECASE))
        compiled = re.compile(text, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadSetting(f"{name}: the pattern {text!r} is not a regular expression: {error}. Correct it.") from error
    if ways > MOST_WAYS:
        raise BadSetting(
            f"{name}: the pattern {text!r} can be tried in too many ways on one line, which could take hours. "
            "Bound its repetitions, such as .{0,20} in place of .*, and repeat nothing that repeats."
        )
    if compiled.match("") is not None:
        raise BadSetting(f"{name}: the pattern {text!r} fits an empty line, so it says nothing. Ask for some letters.")
    return compiled


def _ways(items: Iterable[tuple[Any, Any]]) -> float:
    """In how many ways a line can be divided among these items, at most."""
    ways = 1.0
    for kind, value in items:
        ways = min(ways * _item_ways(kind, value), 1e30)
    return ways


def _item_ways(kind: Any, value: Any) -> float:
    match str(kind):
        case "MAX_REPEAT" | "MIN_REPEAT":
            low, high, body = value
            each, most = _ways(body), SPACES if _is_space(body) else LINE
            ways = sum(min(each ** min(count, 100), 1e30) for count in range(min(low, most), min(high, most) + 1))
        case "BRANCH":
            ways = sum(map(_ways, value[1]))
        case "SUBPATTERN":
            ways = _ways(value[3])
        case "ASSERT" | "ASSERT_NOT":
            ways = _ways(value[1])
        case "ATOMIC_GROUP":
            ways = _ways(value)
        case "POSSESSIVE_REPEAT":
            ways = _ways(value[2])
        case "GROUPREF" | "GROUPREF_EXISTS":
            raise re.error("it refers back to a group, which rules do not need")
        case _:
            ways = 1.0
    return ways


def _is_space(body: Any) -> bool:
    [*items] = body
    return len(items) == 1 and items[0] in (
        (_constants.IN, [(_constants.CATEGORY, _constants.CATEGORY_SPACE)]),
        (_constants.LITERAL, ord(" ")),
    )


@dataclass(frozen=True)
class RulesFile:
    """One file; `where` is the place in it, such as `, rule 3`, that a sentence names."""

    path: Path

    def read(self) -> dict[str, Any]:
        """All of it, as TOML."""
        try:
            return tomllib.loads(self.path.read_text(encoding="utf-8"))
        except OSError as error:
            raise BadSetting(
                f"The rules file {self.path} cannot be read: {error.strerror}. Correct its path or its permissions."
            ) from error
        except UnicodeDecodeError as error:
            raise BadSetting(f"The rules file {self.path} is not UTF-8 text. Save it as UTF-8.") from error
        except tomllib.TOMLDecodeError as error:
            raise BadSetting(f"The rules file {self.path} is not valid TOML: {error}. Correct that line.") from error

    def refuse(self, where: str, sentence: str) -> NoReturn:
        raise BadSetting(f"The rules file {self.path}{where}: {sentence}")

    def check_known(self, name: str, known: Collection[str], where: str, what: str) -> None:
        if name not in known:
            self.refuse(where, f"{name} is not {what}. {_advice(name, known)}")

    def check_keys(self, table: Mapping[str, Any], known: set[str], where: str) -> None:
        for key in table:
            self.check_known(key, known, where, "a key here")

    def choice(self, table: Mapping[str, Any], key: str, where: str, known: Sequence[str], usual: str | None) -> str:
        value = table.get(key, usual)
        if not isinstance(value, str) or value not in known:
            said = f"{key} is missing" if value is None else f"{key} is {value!r}"
            self.refuse(where, f"{said}. Write one of {', '.join(known)}.")
        return value

    def number(self, table: Mapping[str, Any], key: str, where: str, *, low: float, high: float = HEAVIEST) -> float:
        value = table.get(key)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not isfinite(value)
            or not low <= value <= high
        ):
            said = f"{key} is missing" if value is None else f"{key} is {value!r}"
            self.refuse(where, f"{said}. Write a number from {low:g} to {high:g}.")
        return float(value)

    def flag(self, table: Mapping[str, Any], key: str, where: str = "") -> bool:
        value = table.get(key, False)
        if not isinstance(value, bool):
            self.refuse(where, f"{key} is {value!r}. Write true or false.")
        return value

    def texts(self, table: Mapping[str, Any], key: str, where: str) -> list[str]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
            self.refuse(where, f'{key} must be a list of texts, such as {key} = ["one", "two"].')
        return value

    def section(self, table: Mapping[str, Any], key: str) -> dict[str, Any]:
        value = table.get(key, {})
        if not isinstance(value, dict):
            self.refuse("", f"{key} must be a table. Write its keys under [{key}].")
        return value


def _advice(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    return f"Did you mean {near[0]}?" if near else f"There are {', '.join(sorted(known))}."


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
    def steps(self) -> StepCosts:
        return StepCosts(self.costs, self.labels, self.cover, self.other)

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
