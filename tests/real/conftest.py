"""What needs other servers, root, or Debian packages. `.ci/run` installs them; elsewhere a missing one is skipped loudly."""

import os
import shutil

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/real/" in str(item.path):
            item.add_marker(pytest.mark.real)


def missing(what: str, how: str) -> None:
    """Skip, or fail where everything must be there: in CI as root."""
    sentence = f"{what} is missing: {how}"
    if os.environ.get("CI") == "true" and os.geteuid() == 0:
        pytest.fail(sentence)
    pytest.skip(sentence)


def need_program(name: str, package: str, *places: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin", *places]))
    if found is None:
        missing(name, f"apt-get install {package}")
    assert found is not None
    return found


def need_root(why: str) -> None:
    if os.geteuid() != 0:
        missing("root", why)
