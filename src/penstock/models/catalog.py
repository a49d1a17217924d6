"""Models by name: the built-in one, MiniLM once it is installed, and those of the settings.

A name belongs to its vectors for as long as a collection has them: `static` and `minilm` are fixed, and the tables
`[models.NAME]` of the settings add others, which cannot take those two names.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from penstock.errors import BadSetting
from penstock.models.embed import Embedder, LocalModel, Model
from penstock.models.minilm import is_installed
from penstock.settings import Settings

BUILT_IN = "static"
MINILM = "minilm"


@dataclass(frozen=True)
class KnownModel:
    """A model in the list of models; `ready` is whether it can be used now."""

    name: str
    dimensions: int
    ready: bool
    about: str


class Models:
    """The models of one process, each opened when it is first used."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._open: dict[str, Model] = {}

    def open(self, name: str) -> Model:
        if name not in self._open:
            self._open[name] = open_model(name, self._settings)
        return self._open[name]

    def close(self) -> None:
        """End the threads. Connections need an event loop for that: `aclose`."""
        for model in self._open.values():
            if isinstance(model, LocalModel):
                model.close()
        self._open.clear()

    async def aclose(self) -> None:
        while self._open:
            _, model = self._open.popitem()
            await model.aclose()


def open_model(name: str, settings: Settings | None = None) -> Model:
    """The model of this name; no weights are read and no server is called yet."""
    if name == BUILT_IN:
        return LocalModel(name, 256, load_static)
    if name == MINILM:
        if settings is None or not is_installed(minilm_folder(settings)):
            raise BadSetting("The embedding model minilm is not installed: run `penstock models install minilm`.")
        folder = minilm_folder(settings)
        return LocalModel(name, 384, lambda: _load_minilm(folder), batch=8)  # half a second: a question may wait
    if settings is not None and name in settings.models:
        from penstock.models.remote import RemoteModel

        return RemoteModel(name, settings.models[name])
    raise BadSetting(f"The embedding model {name!r} does not exist: {_choices(settings)}.")


def list_models(settings: Settings) -> list[KnownModel]:
    """All models that `open_model` can open, the built-in one first."""
    installed = is_installed(minilm_folder(settings))
    about = "in this process" if installed else "not installed: run `penstock models install minilm`"
    return [
        KnownModel(BUILT_IN, 256, True, "in this process, comes with Penstock"),
        KnownModel(MINILM, 384, installed, about),
        *(
            KnownModel(name, chosen.dimensions, True, f"{chosen.model} at {chosen.url}")
            for name, chosen in sorted(settings.models.items())
        ),
    ]


def minilm_folder(settings: Settings) -> Path:
    return settings.home / "models" / MINILM


def _choices(settings: Settings | None) -> str:
    configured = "".join(f", `{name}`" for name in sorted(settings.models)) if settings else ""
    return f"use `static`, `minilm`{configured}, or add a table [models.NAME] to the settings"


@cache
def load_static() -> Embedder:
    """The built-in model, read once for each process; callers that will need it can load it early."""
    from penstock.models.static import StaticModel

    return StaticModel()


def _load_minilm(folder: Path) -> Embedder:
    from penstock.models.minilm import MiniLM

    return MiniLM(folder)
