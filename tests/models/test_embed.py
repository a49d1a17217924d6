"""Batches across callers."""

import asyncio
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.errors import BadSetting
from penstock.models import Models, open_model
from penstock.models.embed import BATCH, LocalModel


class Slow:
    """An embedder that works only when it is let; a text is its length."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.may = threading.Semaphore(0)
        self.busy = threading.Event()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.busy.set()
        assert self.may.acquire(timeout=20)
        self.batches.append(list(texts))
        if "bad" in texts:
            raise ValueError("bad text")
        return np.array([[len(text)] for text in texts], dtype=np.float32)


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def model(slow: Slow) -> LocalModel:
    return LocalModel("slow", 1, lambda: slow)


async def until_busy(slow: Slow) -> None:
    assert await asyncio.to_thread(slow.busy.wait, 20)
    slow.busy.clear()


async def test_what_came_meanwhile_goes_out_together(model: LocalModel, slow: Slow) -> None:
    first = asyncio.create_task(model.embed(["a"]))
    await until_busy(slow)
    others = [asyncio.create_task(model.embed(["b" * n, "c"])) for n in (2, 3, 4)]
    await asyncio.sleep(0)  # all of them have asked
    slow.may.release(2)

    assert (await first).tolist() == [[1]]
    assert [(await other).tolist() for other in others] == [[[2], [1]], [[3], [1]], [[4], [1]]]
    assert [len(batch) for batch in slow.batches] == [1, 6]


async def test_batches_are_bounded_and_a_long_list_takes_turns(model: LocalModel, slow: Slow) -> None:
    slow.may.release(100)
    rows, [[one]] = await asyncio.gather(model.embed(["x"] * (3 * BATCH + 1)), model.embed(["yy"]))

    assert (len(rows), one) == (3 * BATCH + 1, 2)
    assert max(map(len, slow.batches)) <= BATCH
    assert ["yy"] in [batch[-1:] for batch in slow.batches[:2]], "it did not wait for the whole list"


async def test_a_slow_model_has_small_batches(slow: Slow) -> None:
    model = LocalModel("slower", 1, lambda: slow, batch=3)
    slow.may.release(100)
    assert len(await model.embed(["x"] * 7)) == 7
    assert [len(batch) for batch in slow.batches] == [3, 3, 1]
    await model.aclose()


async def test_an_error_reaches_those_of_its_batch_and_no_other(model: LocalModel, slow: Slow) -> None:
    slow.may.release(100)
    with pytest.raises(ValueError, match="bad text"):
        await model.embed(["bad"])
    assert (await model.embed(["good"])).tolist() == [[4]]


async def test_a_caller_who_gives_up_harms_nobody(model: LocalModel, slow: Slow) -> None:
    first = asyncio.create_task(model.embed(["a"]))
    await until_busy(slow)
    impatient, patient = asyncio.create_task(model.embed(["b"])), asyncio.create_task(model.embed(["c"]))
    await asyncio.sleep(0)
    impatient.cancel()
    slow.may.release(10)

    assert (await patient).tolist() == [[1]]
    assert (await first).tolist() == [[1]]


async def test_no_texts_are_no_work(model: LocalModel, slow: Slow) -> None:
    assert (await model.embed([])).shape == (0, 1)
    assert slow.batches == []


async def test_models_are_opened_once() -> None:
    models = Models()
    assert models.open("static") is models.open("static")
    rows = await models.open("static").embed(["pump"])
    assert rows.shape == (1, models.open("static").dimensions)
    models.close()


def test_an_unknown_model_is_a_sentence() -> None:
    with pytest.raises(BadSetting, match="`static`"):
        open_model("gpt")
