"""The tables of language models: from variables and arguments, and what is refused."""

import pytest

from penstock.errors import BadSetting
from tests.settings.conftest import Machine


def test_a_table_by_variables(machine: Machine) -> None:
    machine.environ |= {
        "PENSTOCK_LLMS__MAIN__URL": "http://localhost:11434/v1",
        "PENSTOCK_LLMS__MAIN__MODEL": "llama3.2",
        "PENSTOCK_LLMS__MAIN__PRICE_IN": "0.15",
        "PENSTOCK_LLMS__MAIN__TEMPERATURE": "",
        "PENSTOCK_LLMS__MAIN__ANSWER_BYTES": "1MB",
        "PENSTOCK_LLMS__MAIN__KEY": "sk-kanarienvogel",
    }
    chosen = machine.load().settings.llms["main"]
    assert (chosen.model, chosen.price_in, chosen.temperature, chosen.answer_bytes) == ("llama3.2", 0.15, None, 2**20)
    assert "kanarienvogel" not in repr(chosen)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"url": "http://h"}, "llms.far.model is not set"),
        ({"model": "m"}, "llms.far.url is not set"),
        ({"url": "http://user:kanarienvogel@h", "model": "m"}, "This is not an address of a model"),
        ({"url": "http://h", "model": "m", "key": "kanarien vogel"}, "This is not a key"),
        ({"url": "http://h", "model": "m", "answers": "xml"}, "llms.far.answers"),
        ({"url": "http://h", "model": "m", "api_version": "1&x=y"}, "llms.far.api_version"),
        ({"url": "http://h", "model": "m", "answer_bytes": "9MB"}, "llms.far.answer_bytes"),
    ],
)
def test_a_table_that_cannot_be_used(machine: Machine, table: dict[str, str], words: str) -> None:
    with pytest.raises(BadSetting) as caught:
        machine.load(llms={"far": table})
    assert words in str(caught.value)
    assert "kanarien" not in str(caught.value)
