"""The parts of a packet: what counts as a sign, what does not, and what is said when rules or hooks are wrong."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.parts.accuracy import LABELS, judge, macro, make_packets
from benchmarks.parts.seen import SEEN
from benchmarks.parts.unseen import UNSEEN
from penstock.errors import BadSetting, Permanent, Transient
from penstock.pipelines.parts import PacketPage, Part, Rules, classify, load_hook, load_rules
from penstock.pipelines.parts.features import LINE, LINES, SIGNS, read_features
from penstock.pipelines.parts.fuzzy import Lexicon, repair
from tests.slow import examples

PROSE = """
The claimant was admitted in March and has been unable to work since then.
Benefits are payable from the first day after the end of the waiting period.
No other insurer has been notified of this claim at the time of writing.
The policy was in force at the time of the event, as the insurer confirmed.
A further examination is recommended in three months, at the same hospital.
The patient may go back to light duties after six weeks, if nothing happens.
"""
RULE = '[[rule]]\nname = "mine"\nlabel = "B"\nweight = 3\n'
HEAD = 'labels = ["cover", "A", "B", "other"]\n'


@pytest.fixture(scope="module")
def rules() -> Rules:
    return load_rules(None)


def pages(*texts: str) -> list[PacketPage]:
    return [PacketPage(number, text, 0) for number, text in enumerate(texts, 1)]


def labels(parts: Sequence[Part]) -> list[str]:
    """One for each page."""
    return [part.label for part in parts for _ in range(part.first, part.last + 1)]


def test_a_packet_falls_into_its_parts(rules: Rules) -> None:
    made = pages(
        "COVER SHEET\nTo: Claims\nDate: 3 May\nPart A - claimant\nPart B - physician",
        "PART A\nClaimant's statement" + PROSE,
        PROSE,
        "PART B\nPhysician's statement" + PROSE,
        "ATTACHMENT 1\nPhotograph",
        "",
    )
    parts = classify(made, rules)
    assert [(part.label, part.first, part.last) for part in parts] == [
        ("cover", 1, 1),
        ("A", 2, 3),
        ("B", 4, 4),
        ("other", 5, 6),
    ]
    assert all(part.confidence > 0.8 for part in parts)
    assert classify(made, rules) == parts


def test_no_pages_and_one_page(rules: Rules) -> None:
    assert classify([], rules) == []
    assert [(part.label, part.confidence <= 0.5) for part in classify(pages(""), rules)] == [("other", True)]
    assert labels(classify(pages("PART B\nFindings" + PROSE), rules)) == ["B"]


@pytest.mark.parametrize(
    "heading",
    [
        *(
            "PART B",
            "P A R T  B",
            "PARTB",
            "Part B.",
            "PART 'B'",
            "PaRT B - Findings",
            "Pant B",
            "SECTI0N B",
            "Sectlon B: Findings",
        ),
        *(
            "Teil B",
            "TEIL B Prüfbericht",
            "Partie B",
            "PARTE B",
            "Form B-2",
            "FORM B2",
            "Schedule B",
            "B. Findings",
            "B.1 Findings",
        ),
        "Sehr geehrte Behörde   Teil B - Seite 2 von 5",
    ],
)
def test_a_heading_is_known_in_spite_of_noise(rules: Rules, heading: str) -> None:
    made = pages("PART A\nStatement" + PROSE, PROSE, heading + "\n" + PROSE, PROSE)
    assert labels(classify(made, rules)) == ["A", "A", "B", "B"]


@pytest.mark.parametrize(
    "mention",
    [
        "The physician completes the form and sends it back to the office, see\nPart B, which is returned by mail.",
        "As is stated in Part B, the accident took place at the place of employment.",
        "In part a result of the weather, the works were late, and party B agreed.",
    ],
)
def test_a_mention_is_no_heading(rules: Rules, mention: str) -> None:
    made = pages("PART A\nStatement" + PROSE, PROSE + mention + PROSE, PROSE)
    assert labels(classify(made, rules)) == ["A", "A", "A"]


def test_a_table_of_contents_is_not_the_parts_that_it_lists(rules: Rules) -> None:
    contents = "TABLE OF CONTENTS\nPart A: Scope ........ 2\nPart B: Findings ........ 4\nAppendix ........ 9"
    without_dots = "Contents\nPart A  Scope  2\nPart B  Findings  4"
    for listing in (contents, without_dots):
        made = pages(listing, "Part A: Scope\n" + PROSE, PROSE, "Part B: Findings\n" + PROSE)
        assert labels(classify(made, rules)) == ["other", "A", "A", "B"]


def test_page_numbers_that_go_on_keep_a_page_in_its_part(rules: Rules) -> None:
    sheet = "Copy of the register"
    alone = pages("PART B\nFindings" + PROSE + "1", sheet + PROSE)
    going_on = pages("PART B\nFindings" + PROSE + "Page 1 of 3", sheet + PROSE + "Page 2 of 3")
    assert labels(classify(alone, rules)) == ["B", "other"]
    assert labels(classify(going_on, rules)) == ["B", "B"]


def test_numbered_parts_count_only_where_nothing_has_a_letter(rules: Rules) -> None:
    made = pages("PART 1\nApplicant" + PROSE, "PART II\nEmployer" + PROSE)
    assert labels(classify(made, rules)) == ["A", "B"]
    made = pages("PART A\nStatement" + PROSE, "PART 2\nMore of it" + PROSE)
    assert labels(classify(made, rules)) == ["A", "A"]


def test_a_packet_may_have_its_own_word_for_parts(rules: Rules) -> None:
    made = pages("ENVELOPE A\nTechnical" + PROSE, PROSE, "ENVELOPE B\nFinancial" + PROSE)
    assert labels(classify(made, rules)) == ["A", "A", "B"]
    made = pages("PART A\nStatement" + PROSE, "EXHIBIT A\nLetter", "EXHIBIT B\nPayslip")
    assert labels(classify(made, rules)) == ["A", "other", "other"]
    [nothing] = classify(pages("VITAMIN B\nIs healthy" + PROSE), rules)
    assert nothing.label != "B"
    assert nothing.confidence <= 0.5


def test_a_new_document_makes_a_change_cheaper(rules: Rules) -> None:
    texts = ("PART A\nStatement" + PROSE, "Letter of reference\nKind regards")
    one = classify(pages(*texts), rules)
    two = classify([PacketPage(1, texts[0], 0), PacketPage(2, texts[1], 1)], rules)
    assert labels(two) == ["A", "other"]
    assert two[-1].confidence > (one[-1].confidence if labels(one) == ["A", "other"] else 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD, "it has 0 rules"),
        (
            HEAD + RULE + 'kind = "pattern"\npattern = "(B"',
            "rule 1 (mine): the pattern '(B' is not a regular expression",
        ),
        (HEAD + RULE + 'kind = "pattern"\npattern = "(a+)+$"', "too many ways"),
        (HEAD + RULE + 'kind = "pattern"\npattern = "(a|aa)+$"', "too many ways"),
        (HEAD + RULE + f'kind = "pattern"\npattern = "{"a?" * 30}{"a" * 30}"', "too many ways"),
        (HEAD + RULE + "kind = \"pattern\"\npattern = '(a)\\1'", "refers back to a group"),
        (HEAD + RULE + 'kind = "pattern"\npattern = "b?"', "fits an empty line"),
        (HEAD + RULE + 'kind = "pattern"', "needs a pattern"),
        (HEAD + RULE + 'kind = "layout"\nfeature = "lines"\nmin = -3', "min is -3. Write a number from 0"),
        (HEAD + RULE + 'kind = "layout"\nfeature = "lines"', "Give min, max or both"),
        (HEAD + RULE + 'kind = "layout"\nfeature = "colour"\nmin = 1', "feature is 'colour'. Write one of lines,"),
        (HEAD + RULE + 'kind = "keywords"\nkeywords = []', "must be words or phrases"),
        (HEAD + RULE + 'kind = "keywords"\nkeywords = ["x"]\nleast = 2', "least is 2. Write a number from 1 to 1"),
        (HEAD + RULE + 'kind = "marker"', "needs letters"),
        (HEAD + RULE + 'kind = "layout"\nwieght = 2', "wieght is not a key here. Did you mean weight?"),
        (HEAD + RULE.replace("3", "nan") + 'kind = "layout"', "weight is nan"),
        (HEAD + RULE.replace('"B"', '"C"') + 'kind = "layout"', "label is 'C'. Write one of cover, A, B, other"),
        (HEAD + RULE + 'kind = "layout"\npage = "-1"', "page is '-1'. Write one of any, first"),
        (
            HEAD + "[sequence]\nchange = -1\n" + RULE + 'kind = "marker"\nletters = ["B"]',
            "change is -1. Write a number from 0",
        ),
        ('labels = ["A"]', "at least two different names"),
        ('labels = ["A", "B"]', "cover is 'cover', which is not one of the labels"),
        ('extends = true\nwithout = ["heading"]', "heading is not the name of a built-in rule. Did you mean heading"),
        (HEAD + 'without = ["blank"]', "Write extends = true, too"),
        ("labels = 3 3", "is not valid TOML"),
        ("rule = 3", "Begin each rule with [[rule]]"),
    ],
)
def test_what_is_wrong_with_rules_is_told_in_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text if "labels" in text or "extends" in text else HEAD + text)
    with pytest.raises(BadSetting) as caught:
        load_rules(path)
    assert str(caught.value).startswith(f"The rules file {path}")
    assert said in str(caught.value)
    assert str(caught.value).endswith((".", "?"))


def test_a_missing_rules_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"cannot be read: No such file"):
        load_rules(tmp_path / "none.toml")


def test_rules_of_ones_own_add_to_the_built_in_ones(tmp_path: Path, rules: Rules) -> None:
    made = pages("Personal record" + PROSE, "Opinion" + PROSE, PROSE, "PRICE LIST\nPipe 20.00\nTap 8.00\nTube 9.00")
    assert "B" not in labels(classify(made, rules))
    path = tmp_path / "own.toml"
    title = '[[rule]]\nlabel = "{}"\nkind = "keywords"\nkeywords = ["{}"]\nwhere = "title"\nweight = 6\n'
    price = '[[rule]]\nlabel = "other"\nkind = "pattern"\npattern = \'^price li[s5]t\'\nwhere = "title"\nweight = 4\n'
    path.write_text(
        'extends = true\nwithout = ["blank"]\n'
        + title.format("A", "personal record")
        + title.format("B", "opinion")
        + price
    )
    own = load_rules(path)
    assert labels(classify(made, own)) == ["A", "B", "B", "other"]
    assert len(own.rules) == len(rules.rules) + 2


def test_labels_come_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    rule = '[[rule]]\nlabel = "{0}"\nkind = "keywords"\nkeywords = ["{0}"]\nweight = 5\n'
    path.write_text(
        'labels = ["face", "will", "deed", "rest"]\ncover = "face"\nother = "rest"\n'
        + rule.format("will")
        + rule.format("deed")
    )
    made = pages("Last will", "of somebody", "Deed of gift")
    assert labels(classify(made, load_rules(path))) == ["will", "will", "deed"]


def test_a_hook_is_added_to_the_rules(rules: Rules) -> None:
    def weigh(given: Sequence[PacketPage], labels: Sequence[str]) -> list[Mapping[str, float]]:
        assert list(labels) == ["cover", "A", "B", "other"]
        return [{"B": np.float32(9.0)} if "opinion" in page.text else {} for page in given]  # type: ignore[dict-item]

    made = pages("PART A\nStatement" + PROSE, "An opinion of the expert" + PROSE)
    assert labels(classify(made, rules)) == ["A", "A"]
    assert labels(classify(made, rules, weigh)) == ["A", "B"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([{}], "gave 1 answers for 2 pages"),
        (None, "gave a NoneType for 2 pages"),
        ("ab", "for 2 pages"),
        ([{}, 3], "for page 2, a int"),
        ([{"C": 1.0}, {}], "for page 1, the label 'C'"),
        ([{}, {"A": float("nan")}], "nan for A"),
        ([{}, {"A": "1"}], "'1' for A"),
        ([{}, {"A": True}], "True for A"),
        ([{}, {"A": 10**400}], "for A. A weight must be a finite number"),
    ],
)
def test_a_wrong_answer_of_a_hook_is_permanent(rules: Rules, answer: object, said: str) -> None:
    hook: Callable[..., object] = lambda given, labels: answer  # noqa: E731
    with pytest.raises(Permanent) as caught:
        classify(pages("one", "two"), rules, hook)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_what_a_hook_raises(rules: Rules) -> None:
    def broken(given: Sequence[PacketPage], labels: Sequence[str]) -> Sequence[Mapping[str, float]]:
        raise KeyError("weights")

    def away(given: Sequence[PacketPage], labels: Sequence[str]) -> Sequence[Mapping[str, float]]:
        raise Transient("the model is away")

    with pytest.raises(Permanent, match=r"The hook for parts failed with KeyError: 'weights'\. Correct it"):
        classify(pages("one"), rules, broken)
    with pytest.raises(Transient, match="away"):
        classify(pages("one"), rules, away)


def test_a_hook_is_found_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parts_hook_here.py").write_text("def weigh(pages, labels):\n    return [{} for _ in pages]\n")
    (tmp_path / "parts_hook_broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert load_hook("parts_hook_here:weigh")(pages("one"), ["A"]) == [{}]
    for place, said in (
        ("parts_hook_here", "write it as module:function"),
        ("parts_hook_here:weight", "has no function weight"),
        ("parts_hook_nowhere:weigh", "cannot be imported"),
        ("parts_hook_broken:weigh", "ZeroDivisionError"),
    ):
        with pytest.raises(BadSetting, match=said):
            load_hook(place)


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "PART A\nx", "PART B", "Cover sheet", "Annex", PROSE, "2 of 3"]), st.booleans()),
        max_size=30,
    )
)
@settings(deadline=None, max_examples=examples(60))
def test_the_ranges_hold_each_page_once(drawn: list[tuple[str, bool]]) -> None:
    document, made = 0, []
    for number, (text, opens) in enumerate(drawn, 1):
        document += opens
        made.append(PacketPage(number, text, document))
    parts = classify(made, load_once())
    assert [page for part in parts for page in range(part.first, part.last + 1)] == [page.number for page in made]
    assert all(before.label != after.label for before, after in pairwise(parts))
    assert all(0 <= part.confidence <= 1 for part in parts)


@given(st.text(max_size=300))
@settings(deadline=None, max_examples=examples(100))
def test_any_text_can_be_judged(text: str) -> None:
    [part] = classify(pages(text), load_once())
    assert 0 <= part.confidence <= 1


def test_pages_out_of_order_are_refused(rules: Rules) -> None:
    for numbers in ((2, 1), (1, 3), (1, 1), (-1, 0)):
        with pytest.raises(Permanent, match="not numbered one after the other"):
            classify([PacketPage(number, "", 0) for number in numbers], rules)


@pytest.mark.slow
def test_a_large_packet_and_a_large_page_are_bounded_work(rules: Rules) -> None:
    made = pages(*(f"PART {'AB'[number >= 2500]}\n{PROSE}" for number in range(5000)))
    assert [(part.label, part.last) for part in classify(made, rules)] == [("A", 2500), ("B", 5000)]
    leaf = read_features(PacketPage(1, "PART A\n" + "word " * 10**6 + "\nx" * 10**5 + "\nPART A", 0), None)
    assert len(leaf.lines) <= 2 * LINES
    assert sum(len(line.raw) for line in leaf.lines) <= 2 * SIGNS
    assert max(len(line.text) for line in leaf.lines) <= LINE
    assert leaf.lines[-1].text == "PART A"


def test_noise_of_words() -> None:
    lexicon = Lexicon(["transmittal", "part", "fax"])
    assert lexicon.near("Transrnitta1") == {"transmlttal"}
    assert lexicon.near("TRANSMITAL") == {"transmlttal"}
    assert lexicon.near("pat") == frozenset({"part"})
    assert lexicon.near("tax") == frozenset()
    assert repair("P A R T of C0VER 5HEET, 2019") == "PART of CoVER sHEET, 2019"


@pytest.mark.parametrize("layouts", [SEEN, UNSEEN], ids=["seen", "unseen"])
def test_packets_of_the_benchmark_keep_their_labels(layouts: tuple[object, ...]) -> None:
    verdicts = judge(make_packets(layouts, 12), {})  # type: ignore[arg-type]
    assert macro(verdicts, LABELS) >= 0.95


def load_once(loaded: list[Rules] = []) -> Rules:  # noqa: B006  hypothesis and fixtures of a function do not go together
    if not loaded:
        loaded.append(load_rules(None))
    return loaded[0]
