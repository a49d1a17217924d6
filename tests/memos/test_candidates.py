"""What follows from verdicts, without a database or a model."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.engine.kinds import encode_args
from penstock.memos.batch import BatchLine, MessageBatch, find_question, find_schema
from penstock.memos.candidates import (
    MOST,
    NEAR,
    TEXT_MAX,
    Candidate,
    MemoNode,
    Pair,
    choose_pairs,
    decide,
    read_candidates,
    read_verdicts,
)

MARK = "feedface"
BATCH = MessageBatch(
    stream=1,
    tenant="default",
    after=4,
    upto=7,
    mark=MARK,
    lines=[BatchLine(5, "Ann", "a", ""), BatchLine(7, "Bob", "b", ""), BatchLine(6, "Ann", "c", "")],
    earlier=[],
    kinds=["fact"],
    language="english",
    confidence=0.5,
    llm="main",
)


def found(**others: object) -> dict[str, object]:
    return {"text": "The gate is of oak.", "kind": "fact", "confidence": 0.9, "messages": [1]} | others


def old(number: int) -> MemoNode:
    return MemoNode(False, number)


def new(place: int) -> MemoNode:
    return MemoNode(True, place)


def pair(newer: int, older: MemoNode, cosine: float = 0.9) -> Pair:
    return Pair(newer, older, "text", cosine)


@pytest.mark.parametrize(
    "bad",
    [
        {"messages": []},
        {"messages": [0]},
        {"messages": [4]},  # of another batch, or nowhere
        {"messages": [1, 99]},
        {"messages": [-1]},
        {"text": "  \n "},
        {"text": "x" * (TEXT_MAX + 1)},
        {"text": "a\0b"},
        {"text": "half \ud800 of it"},
        {"text": f"My mark is {MARK}."},
        {"confidence": 0.4},
        {"confidence": 1.5},
        {"confidence": float("nan")},
    ],
)
def test_what_cannot_be_believed_is_left_out_and_counted(bad: dict[str, object]) -> None:
    candidates, rejected = read_candidates({"memos": [found(**bad), found(text="The rest counts.")]}, BATCH)
    assert ([each.text for each in candidates], rejected) == (["The rest counts."], 1)


@pytest.mark.parametrize("text", ["\x01" * 100_000, '"' * 100_000, "\n" * 100_000, "\U0001f600" * 100_000])
def test_the_longest_batch_is_a_question_that_can_be_asked(text: str) -> None:
    """As JSON within JSON, whatever is in it: of so many characters as a batch may have, or of one message alone."""
    question = find_question(replace(BATCH, lines=[BatchLine(5, "Ann", text, "")]))
    encode_args("llm.complete.main", {"messages": question, "schema": find_schema(BATCH.kinds)})


def test_findings_come_in_the_order_in_which_they_were_said() -> None:
    """And are named by the numbers of the stream; the same sentence twice is one candidate."""
    answer = [
        found(text="third", messages=[3]),
        found(text="second", messages=[1, 2]),
        found(text="first", messages=[1]),
        found(text="First", messages=[1], confidence=1.0),
    ]
    candidates, rejected = read_candidates({"memos": answer}, BATCH)
    assert candidates == [
        Candidate("first", "fact", 1.0, [5]),
        Candidate("second", "fact", 0.9, [5, 7]),
        Candidate("third", "fact", 0.9, [6]),
    ]
    assert rejected == 0


def test_more_findings_than_anybody_needs_are_cut() -> None:
    candidates, rejected = read_candidates({"memos": [found(text=f"memo {n}") for n in range(10_000)]}, BATCH)
    assert (len(candidates), rejected) == (MOST, 10_000 - MOST)


def test_only_what_is_near_is_compared_and_not_with_everything() -> None:
    vectors = np.array([[1, 0], [0, 1], [0.8, 0.6], [1, 0]], dtype=np.float32)
    near = {0: [(n, f"memo {n}", 0.9 - n / 100) for n in range(9)], 2: [(17, "memo 17", 0.2)]}
    pairs = choose_pairs(["a", "b", "c", "d"], vectors, near, 0.7)
    assert [each.older for each in pairs if each.newer == 0] == [old(n) for n in range(NEAR)]
    assert [(each.newer, each.older) for each in pairs if each.newer] == [(2, new(0)), (3, new(0)), (3, new(2))]


def test_what_the_model_does_not_tell_is_different() -> None:
    answers = [
        {"verdicts": [{"pair": 2, "verdict": "same"}, {"pair": 9, "verdict": "contradicts"}]},
        {"verdicts": [{"pair": 1, "verdict": "same"}, {"pair": 1, "verdict": "contradicts"}]},
    ]
    assert read_verdicts(answers, [2, 1]) == ["different", "same", "different"]


def test_the_same_is_merged_and_a_contradiction_supersedes() -> None:
    pairs = [pair(0, old(7)), pair(1, old(8)), pair(2, old(9))]
    outcome = decide(pairs, ["same", "contradicts", "different"], {7, 8, 9}, [0, 1, 2])
    assert outcome.merged == {0: old(7)}
    assert outcome.superseded == {old(8): new(1)}


def test_within_one_batch_the_last_word_counts() -> None:
    """Oak, then steel, then oak again: the first oak stays superseded, and the last one lives."""
    pairs = [pair(1, new(0)), pair(2, new(0)), pair(2, new(1))]
    outcome = decide(pairs, ["contradicts", "same", "contradicts"], set(), [0, 1, 2])
    assert outcome.merged == {}
    assert outcome.superseded == {new(0): new(1), new(1): new(2)}


def test_what_was_merged_is_stood_for_by_what_it_was_merged_into() -> None:
    pairs = [pair(0, old(7)), pair(1, new(0)), pair(2, new(0))]
    assert decide(pairs, ["same", "same", "contradicts"], {7}, [0, 1, 2]).merged == {0: old(7), 1: old(7)}
    assert decide(pairs, ["same", "same", "contradicts"], {7}, [0, 1, 2]).superseded == {old(7): new(2)}
    # One that repeats an old memo supersedes others in the name of that one.
    assert decide([pair(0, old(7)), pair(0, old(8))], ["same", "contradicts"], {7, 8}, [0]).superseded == {
        old(8): old(7)
    }


def test_what_is_gone_meanwhile_is_nothing_to_merge_into() -> None:
    pairs = [pair(0, old(7)), pair(2, new(1))]
    outcome = decide(pairs, ["same", "contradicts"], set(), [0, 2])
    assert (outcome.merged, outcome.superseded) == ({}, {})
