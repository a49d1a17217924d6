"""The stand-in for a model of the examples, asked as any other server."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import Unavailable
from penstock.models.llm import Completer, Request
from penstock.models.remote import RemoteModel
from penstock.settings.models import LlmSettings, ModelSettings
from tests.processes import start

SERVER = Path(__file__).parents[2] / "examples/models/server.py"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with start(str(SERVER), "--port", "0") as started:
        await started.until("/v1")
        found = re.search(r"http://\S+/v1", started.printed)
        assert found is not None
        yield found[0]


async def test_it_echoes_counts_and_says_what_it_is(url: str) -> None:
    completer = Completer("near", LlmSettings(url=url, model="any"))
    done = await completer.complete(Request([{"role": "user", "content": "Who pays for the weir?"}]))
    await completer.aclose()
    assert done.text == "This is a stand-in for a model. It was asked: Who pays for the weir?"
    assert (done.model, done.tokens_in, done.tokens_out) == ("any", 5, 15)


@pytest.mark.parametrize("form", ["schema", "json", "text"])
async def test_the_schema_decides_who_answers(url: str, form: str) -> None:
    """Also when only the prompt tells it; one that nobody knows is refused with that reason."""
    completer = Completer("near", LlmSettings.model_validate({"url": url, "model": "any", "answers": form}))
    schema = {"type": "object", "properties": {"weather": {"type": "string"}}}
    with pytest.raises(Unavailable, match=r"failed \(501, unknown_schema, stand_in_error\)"):
        await completer.complete(Request([{"role": "user", "content": "Will it rain?"}], schema=schema))
    await completer.aclose()


async def test_texts_with_the_same_words_are_near(url: str) -> None:
    model = RemoteModel("near", ModelSettings(url=url, model="any", dimensions=64))
    rows = await model.embed(["the gate is made of oak", "of oak the gate is made", "a barge came with coal"])
    again = await model.embed(["the gate is made of oak"])
    await model.aclose()
    assert rows[0] @ rows[1] == pytest.approx(1, abs=1e-5)
    assert rows[0] @ rows[2] < 0.5
    assert np.array_equal(rows[:1], again)
