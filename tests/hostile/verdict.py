"""What is wrong with how a file ended: nothing, or a list of complaints."""

import re
from pathlib import PurePosixPath

from penstock.errors import ResourceLimit, Unreadable
from tests.hostile.file import File
from tests.hostile.trial import Trial

LONGEST_SENTENCE = 400
# What programs say to each other: traces, places in the file system or in memory, names of classes, formats of Python.
INNER = re.compile(
    r"Traceback|site-packages|\.py\b|/tmp/|/work/|/root/|/usr/|\b0x[0-9a-f]{4,}|<[\w.]+ object|\w(?:Error|Exception)\b"
    r"|Plugin|\berrno\b|decoder error|^'|: '[A-Z]+'\.|\bNone\b|\bNULL\b|b'|\{\}|%[sd]",
)
SECRET = "root:x:0"  # of /etc/passwd


def complaints(trial: Trial, file: File | None = None) -> list[str]:
    """Of any file; and of one whose end is known."""
    found = [*_of_kind(trial), *_of_sentences(trial), *_of_text(trial), *_of_members(trial)]
    if file is not None:
        found += _of_expectation(trial, file)
    return [f"{trial.name} ({trial.seconds:.1f} s): {complaint}" for complaint in found]


def _of_kind(trial: Trial) -> list[str]:
    if trial.error is None or isinstance(trial.error, Unreadable | ResourceLimit):
        return []
    return [f"raised {type(trial.error).__name__}: {trial.error}"]


def _of_sentences(trial: Trial) -> list[str]:
    found = []
    for sentence in trial.sentences:
        if len(sentence) > LONGEST_SENTENCE or len(sentence.split()) < 3 or "\n" in sentence:
            found.append(f"no sentence: {sentence[:LONGEST_SENTENCE]!r}")
        if inner := INNER.search(sentence):
            found.append(f"{inner[0]!r} is not for a person: {sentence!r}")
    if trial.ready and not trial.text.strip() and not trial.members and not trial.gaps:
        found.append("no text, and no reason for it")
    return found


def _of_text(trial: Trial) -> list[str]:
    found = ["it shows a file of the machine"] if SECRET in trial.text else []
    if "\0" in trial.text or any("\ud800" <= char <= "\udfff" for char in trial.text if char > "\ud7ff"):
        found.append("its text cannot be kept")
    return found


def _of_members(trial: Trial) -> list[str]:
    found = []
    for name in trial.members:
        path = PurePosixPath(name)
        parts = path.parts
        if (
            path.is_absolute()
            or ".." in parts
            or "\\" in name
            or not name.strip()
            or re.search(r"[\x00-\x1f\u202e]", name)
        ):
            found.append(f"a member is called {name[:100]!r}")
        if any(len(part.encode()) > 255 for part in parts):
            found.append(f"a member has a long name: {name[:100]!r}")
    return found


def _of_expectation(trial: Trial, file: File) -> list[str]:
    if trial.error is None:
        return ["should have been refused"] if file.expect == "failed" else []
    if file.expect == "ready":
        return [f"should have been read, but: {trial.error}"]
    found = []
    if not isinstance(trial.error, file.errors):
        found.append(
            f"{type(trial.error).__name__} is not among {[kind.__name__ for kind in file.errors]}: {trial.error}"
        )
    if file.says and not re.search(file.says, str(trial.error)):
        found.append(f"does not say {file.says!r}: {trial.error}")
    return found
