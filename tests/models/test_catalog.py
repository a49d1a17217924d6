"""Models by name, and those that the settings add."""

from pathlib import Path

import pytest

from penstock.errors import BadSetting
from penstock.models import Models, list_models, minilm_folder, open_model
from penstock.models.minilm import MARKER
from penstock.models.remote import RemoteModel
from penstock.settings import Settings, load_settings

TABLE = """\
[models.far]
url = "https://models.example.org/v1"
model = "bge-m3"
dimensions = 1024
timeout = "10s"
"""


def load(home: Path, text: str = TABLE, **environ: str) -> Settings:
    (home / "penstock.toml").write_text(text)
    return load_settings(working_folder=home, environ={"PENSTOCK_HOME": str(home), **environ}).settings


async def test_a_table_of_the_settings_is_a_model(tmp_path: Path) -> None:
    settings = load(tmp_path, PENSTOCK_MODELS__FAR__KEY="sk-canary", PENSTOCK_MODELS__FAR__BATCH="5")
    models = Models(settings)
    far = models.open("far")

    assert isinstance(far, RemoteModel)
    assert (far.name, far.dimensions, settings.models["far"].batch) == ("far", 1024, 5)
    assert settings.models["far"].key is not None
    assert settings.models["far"].key.get_secret_value() == "sk-canary"
    assert "sk-canary" not in repr(settings)
    assert models.open("far") is far
    await models.aclose()


def test_the_place_of_each_key_is_kept(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(TABLE)
    environ = {"PENSTOCK_HOME": str(tmp_path), "PENSTOCK_MODELS__FAR__KEY": "sk-canary"}
    origins = load_settings(working_folder=tmp_path, environ=environ).origins
    assert origins["models.far.key"] == "PENSTOCK_MODELS__FAR__KEY"
    assert origins["models.far.url"] == str(tmp_path / "penstock.toml")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[models.far]\nurl = "https://h/v1"\nmodel = "m"', "models.far.dimensions is not set"),
        ('[models.far]\nurl = "ftp://h"\nmodel = "m"\ndimensions = 3', "not an address of a model"),
        ('[models.far]\nurl = "https://u:canary@h"\nmodel = "m"\ndimensions = 3', "not an address of a model"),
        (TABLE + 'key = "canary with spaces"', "This is not a key"),
        (TABLE + "key = 5", "must be text"),
        (TABLE + "batch = 0", "whole number from 1 to 2048"),
        (TABLE + 'kind = "other"', "one of openai"),
        (TABLE + "size = 3", "models.far.size in .* is not a setting"),
        (TABLE.replace("far", "static"), "models.static cannot be set"),
        (TABLE.replace("far", '"Far Away"'), "is not a setting"),
        ("[models]\nfar = 3", "is not a setting"),
        ("models = 3", "is not a setting"),
    ],
)
def test_a_wrong_table_is_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(BadSetting, match=sentence) as caught:
        load(tmp_path, text)
    assert "canary" not in str(caught.value)


def test_settings_made_by_hand_are_checked_alike() -> None:
    with pytest.raises(ValueError, match=r"models\.Far cannot be set"):
        Settings.model_validate({"models": {"Far": {"url": "http://h", "model": "m", "dimensions": 3}}})


def test_what_is_missing_says_how_to_get_it(tmp_path: Path) -> None:
    settings = load(tmp_path)
    with pytest.raises(BadSetting, match="`penstock models install minilm`"):
        open_model("minilm", settings)
    with pytest.raises(BadSetting, match="`static`, `minilm`, `far`"):
        open_model("gpt", settings)


async def test_all_are_listed(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert [(model.name, model.dimensions, model.ready) for model in list_models(settings)] == [
        ("static", 256, True),
        ("minilm", 384, False),
        ("far", 1024, True),
    ]
    minilm_folder(settings).mkdir(parents=True)
    (minilm_folder(settings) / MARKER).write_text("{}")
    assert list_models(settings)[1].ready
    model = open_model("minilm", settings)
    assert model.dimensions == 384
    await model.aclose()
