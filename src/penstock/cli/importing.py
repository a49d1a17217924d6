"""`module:app` as a person writes it, turned into the application."""

import importlib
import sys
import traceback
from pathlib import Path

from penstock.engine import Penstock
from penstock.errors import CannotStart


def import_app(place: str) -> Penstock:
    """The application at `module:name` (`module` alone means `module:app`), looked for in the working folder first."""
    module_name, _, name = place.partition(":")
    name = name or "app"
    if not all(part.isidentifier() for part in [*module_name.split("."), name]):
        raise CannotStart(f"{place!r} is not module:app, such as shop.jobs:app.")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise CannotStart(
                f"There is no module {error.name} in {Path.cwd()} or among the installed ones."
            ) from error
        raise CannotStart(f"{module_name} imports {error.name}, which is not installed.") from error
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise CannotStart(
            f"Importing {module_name} failed in {last.filename}:{last.lineno} ({type(error).__name__}: {error})."
        ) from error
    app = getattr(module, name, None)
    if app is None:
        raise CannotStart(f"The module {module_name} has no {name}: name the one that is a Penstock().")
    if not isinstance(app, Penstock):
        raise CannotStart(f"{place} is a {type(app).__name__} and not a Penstock.")
    if not app.kinds:
        raise CannotStart(f"{place} declares no job: decorate one with @{name}.job().")
    return app
