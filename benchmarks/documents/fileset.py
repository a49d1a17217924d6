"""The files of the benchmark: those of the corpus that bear text (files.txt), each so many times, salted.

Every copy has bytes of its own, so that no side can find out that it has seen it before: a comment where the format has
one, else bytes behind the end, which all readers ignore.
"""

import shutil
import zipfile
from pathlib import Path

LIST = Path(__file__).with_name("files.txt")
CORPUS = Path(__file__).resolve().parents[2].parent / "shared/corpus"


def corpus(part: str) -> Path:
    folder = CORPUS / part
    if not folder.is_dir():
        raise SystemExit(f"The corpus is not at {folder}: this benchmark needs its files.")
    return folder


def make_files(folder: Path, copies: int) -> list[Path]:
    """Write the set; the paths in the order in which every side takes them."""
    good = corpus("good")
    made = []
    for copy in range(copies):
        for name in LIST.read_text().split("\n"):
            if name:
                path = folder / f"{copy}-{name}"
                shutil.copyfile(good / name, path)
                salt(path, f"penstock benchmark, copy {copy} of {name}")
                made.append(path)
    return made


def salt(path: Path, text: str) -> None:
    """Make the content differ, and nothing else."""
    with path.open("rb") as file:
        begins = file.read(4)
    if begins == b"PK\3\4":
        with zipfile.ZipFile(path, "a") as archive:
            archive.comment = text.encode()
        return
    if begins == b"\xd0\xcf\x11\xe0":  # an old compound file: one more sector, which belongs to nobody
        with path.open("ab") as file:
            file.write(text.encode().ljust(512 + -path.stat().st_size % 512, b"\0"))
        return
    kind = path.suffix.lower()
    tail = {
        ".pdf": f"\n% {text}\n",
        ".html": f"\n<!-- {text} -->\n",
        ".htm": f"\n<!-- {text} -->\n",
        ".xml": f"\n<!-- {text} -->\n",
        ".json": " " * (1 + int(path.name.partition("-")[0])) + "\n",
        ".ipynb": " " * (1 + int(path.name.partition("-")[0])) + "\n",
        ".rtf": "\n" * (1 + int(path.name.partition("-")[0])),
    }.get(kind, f"\n{text}\n")
    with path.open("ab") as file:
        file.write(tail.encode())
