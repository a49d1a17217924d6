"""`python -m tests.client.unasync` writes penstock/client/_sync from penstock/client/_async, word by word.

The sources use only what has a word in the other flavour; whatever waits differently beyond that stands side by side in
transport.py and upload_body.py. A test fails when the result is not what is in the tree.
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[2] / "src/penstock/client"
SOURCE, TARGET = HERE / "_async", HERE / "_sync"
HEADER = "# Made from ../_async/{name} by `python -m tests.client.unasync`: change that one.\n"

WORDS = {
    "_async": "_sync",
    "async_off_loop": "off_loop",
    "async_sleep": "sleep",
    "async_pieces": "pieces",
    "asynccontextmanager": "contextmanager",
    "aclose": "close",
    "aiter_lines": "iter_lines",
    "aiter_raw": "iter_raw",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
}
DOCSTRING = (
    "The async client, and the source of the sync one: `python -m tests.client.unasync` writes `_sync` from here."
)


def unasync(text: str) -> str:
    """The sync version of a source."""
    text = text.replace(DOCSTRING, "The sync client.")
    text = re.sub(r"\b(async|await) ", "", text)
    text = re.sub(r"\bAsync([A-Z]\w*)\b", r"\1", text)
    return re.sub(r"\w+", lambda word: WORDS.get(word[0], word[0]), text)


def made() -> dict[str, str]:
    """Every file of the sync client, as it has to be."""
    return {
        path.name: _tidy(HEADER.format(name=path.name) + unasync(path.read_text("utf-8")), path.name)
        for path in sorted(SOURCE.glob("*.py"))
    }


def _tidy(text: str, name: str) -> str:
    """In the order and form that the linter wants."""
    ruff = str(Path(sys.executable).with_name("ruff"))
    where = ("--stdin-filename", str(TARGET / name), "-")
    for step in (
        ("check", "--quiet", "--fix-only", "--unsafe-fixes", "--select", "I,UP028,C416"),
        ("format", "--quiet"),
    ):
        text = subprocess.run([ruff, *step, *where], input=text, capture_output=True, text=True, check=True).stdout
    return text


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    for name, text in made().items():
        (TARGET / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
