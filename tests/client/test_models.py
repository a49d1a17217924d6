"""Results and errors across releases: what is new is kept, what is missing has a default."""

import pickle

import pytest

from penstock.client import BadAnswer, Collection, Document, Found, NameTaken, Problem, Refused, StorageFull, Trouble
from penstock.client.errors import problem_of, seconds
from penstock.client.models import decode


def test_a_newer_server() -> None:
    found = decode(Document, {"id": 7, "status": "frozen", "colour": "blue"})
    assert (found.status, found.extra, found.gaps) == ("frozen", {"colour": "blue"}, [])
    hit = {"document": 1, "text": "a", "mood": 1, "neighbours": [{"chunk": 1, "text": "b", "new": 2}]}
    [found_hit] = decode(Found, {"hits": [hit]}).hits
    assert (found_hit.extra, found_hit.neighbours[0].extra) == ({"mood": 1}, {"new": 2})


@pytest.mark.parametrize("answer", [None, [], "x", {"id": 1}, {"id": 1, "name": "a", "created_at": "soon"}])
def test_what_is_no_collection(answer: object) -> None:
    with pytest.raises(BadAnswer):
        decode(Collection, answer)


def test_classes_of_problems() -> None:
    assert type(problem_of(409, {"type": "urn:penstock:name-taken", "existing": 3})) is NameTaken
    assert type(problem_of(418, {"type": "urn:penstock:teapot"})) is Refused
    assert type(problem_of(507, None)) is StorageFull
    assert type(problem_of(599, None)) is Trouble
    assert type(problem_of(302, None)) is Problem


def test_an_error_crosses_processes() -> None:
    error = problem_of(409, {"type": "urn:penstock:name-taken", "detail": "Taken.", "existing": 3})
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, NameTaken)
    assert (str(again), again.existing) == ("Taken.", 3)


@pytest.mark.parametrize(("text", "value"), [("2", 2.0), (None, None), ("soon", None), ("-1", None), ("inf", None)])
def test_retry_after(text: str | None, value: float | None) -> None:
    assert seconds(text) == value
