"""Bad input is refused at the call, with a sentence."""

import math
from typing import Any

import pytest

from penstock import Penstock
from penstock.engine.kinds import ARGS_MAX, check_fairness_key
from penstock.engine.queue import Order
from penstock.errors import BadJob
from tests.engine.conftest import make_kind, nothing


def app() -> Penstock:
    return Penstock()


def test_calling_a_job_runs_nothing() -> None:
    ran = []

    @app().job()
    async def greet(ctx: Any, name: str) -> None:
        ran.append(name)

    call = greet(name="Ada")
    assert call.args == '{"name":"Ada"}'
    assert ran == []


def test_arguments_are_given_by_name_or_by_position() -> None:
    @app().job()
    async def greet(ctx: Any, /, name: str, times: int = 1, **words: str) -> None:
        """Take arguments of every kind that can be kept by name."""

    assert greet("Ada", 2).args == greet(name="Ada", times=2).args
    assert greet("Ada", word="hello").args == '{"name":"Ada","word":"hello"}'
    with pytest.raises(BadJob, match="greet cannot be called like this: multiple values for argument 'name'"):
        greet("Ada", name="Ada")  # type: ignore[misc]
    with pytest.raises(BadJob, match="greet cannot be called like this: too many positional arguments"):
        greet("Ada", 2, 3)  # type: ignore[call-arg]


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", math.nan, math.inf, 1j])
def test_arguments_that_json_cannot_hold(value: object) -> None:
    with pytest.raises(BadJob, match="cannot be kept as JSON"):
        nothing(n=value)


def test_arguments_that_contain_themselves() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(BadJob, match="cannot be kept as JSON"):
        nothing(n=circle)


def test_arguments_that_are_too_large() -> None:
    with pytest.raises(BadJob, match=r"more than 1,000,000: pass a key"):
        nothing(n="x" * (ARGS_MAX + 1))


def test_a_nul_character() -> None:
    with pytest.raises(BadJob, match="NUL"):
        nothing(n="a\0b")


@pytest.mark.parametrize("args", [{"m": 1}, {"n": 1, "o": 2}])
def test_arguments_that_the_handler_does_not_take(args: dict[str, int]) -> None:
    with pytest.raises(BadJob, match="nothing cannot be called like this"):
        nothing(**args)


def test_a_handler_that_is_not_async() -> None:
    with pytest.raises(BadJob, match="must be `async def`"):

        @app().job()  # type: ignore[arg-type]
        def greet(ctx: Any) -> None:
            """Not async."""


def test_a_handler_without_a_context() -> None:
    with pytest.raises(BadJob, match="must take the context first"):

        @app().job()  # type: ignore[arg-type]
        async def greet() -> None:
            """No ctx."""


def test_a_handler_whose_arguments_have_no_names() -> None:
    async def add(ctx: Any, *numbers: int) -> None:
        """Take numbers by position only."""

    with pytest.raises(BadJob, match=r"takes \*numbers: int by position only: arguments are kept by their names"):
        app().job()(add)


def test_two_handlers_of_one_name() -> None:
    one = app()
    one.job(name="same")(make_kind().handler)
    with pytest.raises(BadJob, match="Kind same has two handlers"):
        one.job(name="same")(make_kind().handler)


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 64, "ä", "-x", "a\n"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(BadJob, match="cannot be the name of a kind"):
        make_kind(name)


@pytest.mark.parametrize("option", [{"timeout": "-5s"}, {"timeout": 0}, {"stall_after": "soon"}, {"retries": -1}])
def test_options_that_make_no_sense(option: dict[str, Any]) -> None:
    with pytest.raises(BadJob):
        app().job(**option)(make_kind().handler)


@pytest.mark.parametrize("fairness_key", ["", "x" * 201, "a\nb", "a\0b", "\u200f"])
def test_shares_that_cannot_be(fairness_key: str) -> None:
    with pytest.raises(BadJob, match="cannot be a fairness key"):
        check_fairness_key(fairness_key)


@pytest.mark.parametrize("fairness_key", ["tenant-7", "Ünïcödé", "a b", "'; drop table jobs --", "名前", "emoji 🎉"])
def test_shares_may_be_anybodys_name(fairness_key: str) -> None:
    assert check_fairness_key(fairness_key) == fairness_key


@pytest.mark.parametrize("options", [{"priority": 101}, {"unique": ""}, {"unique_for": 1}, {"unique": "x" * 501}])
def test_orders_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(BadJob):
        Order(nothing(), **options)


def test_an_order_of_something_else() -> None:
    with pytest.raises(BadJob, match="call the decorated function"):
        Order(nothing)  # type: ignore[arg-type]
