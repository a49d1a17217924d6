"""Archives (zip, tar, gzip) and mailboxes: a list of names as their own text, and their members as documents of their own.

`members` is the task that sends them. What is too large, too many, encrypted or broken is left out with a reason; what is a
bomb as a whole was refused before, when the archive itself was read.
"""

import gzip
import re
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, Protocol, cast

from penstock.errors import Corrupt, Encrypted, Suspicious, TooMuch, Unreadable
from penstock.extraction import signature
from penstock.extraction.draft import Allowance, Draft, one_line
from penstock.extraction.membername import Names, safe_name
from penstock.extraction.office import oldoffice, outlook
from penstock.extraction.office.package import BROKEN, HARMLESS, LOCKED, Package
from penstock.extraction.plain import mail, textkind
from penstock.extraction.reading import Gap, Reading

_PIECE = 65_536
_LITTER = re.compile(r"(?:^|/)(?:__MACOSX/|\.DS_Store$|Thumbs\.db$|desktop\.ini$|\._)", re.IGNORECASE)
_BROKEN = (tarfile.TarError, *BROKEN)
_MOST_NAMES = 10_000
LINK = "a link to another file, not a file"


class Reply(Protocol):
    """What a task sends while it runs."""

    def part(self, header: dict[str, Any], pieces: Iterable[bytes]) -> None: ...


@dataclass(slots=True)
class Member:
    """A file inside: its bytes come in pieces, and its size is what the archive says."""

    name: str
    size: int
    pieces: Iterator[bytes]
    refused: str = ""  # why it cannot be had, if so


def read_archive(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> Reading:
    draft = Draft(Allowance(arguments))
    count = sealed = 0
    for member in _entries(file, media_type, arguments):
        count += 1
        sealed += member.refused == LOCKED
        if count <= _MOST_NAMES:
            draft.line(one_line(safe_name(member.name)))
    if count and sealed == count:
        raise Encrypted(LOCKED)
    page = draft.page(1)
    gaps = [] if count else [Gap(None, "no text in it: the archive is empty")]
    if count > _MOST_NAMES:
        gaps.append(Gap(None, f"only the first {_MOST_NAMES:,} of its {count:,} names are listed"))
    return Reading(media_type, [page] if page.text else [], facts={"members": str(count)}, gaps=gaps)


def members(file: BinaryIO, arguments: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """What a box runs for the task "members": send each one as a part."""
    sending = _Sending(arguments, file.seek(0, 2), reply)
    try:
        for member in _entries(file, str(arguments.get("media_type", "")), arguments):
            if not sending.send(member):
                break
    except Unreadable as error:
        sending.miss(str(error))
    return {"members": sending.sent, "gaps": [{"page": None, "reason": reason} for reason in sending.gaps]}


@dataclass(slots=True)
class _Sending:
    """Counts what was sent, and says what was not."""

    arguments: Mapping[str, Any]
    size: int
    reply: Reply
    names: Names = field(default_factory=Names)
    gaps: list[str] = field(default_factory=list)
    sent: int = 0
    left: int = 0
    most: int = 0

    def __post_init__(self) -> None:
        limits = self.arguments.get("limits", {})
        self.left = max(HARMLESS, int(limits.get("expansion", 200)) * self.size)
        self.most = int(limits.get("bytes", 2**31))

    def send(self, member: Member) -> bool:
        """Whether to go on with the next one."""
        limit = int(self.arguments.get("limits", {}).get("members", 1_000))
        if self.sent >= limit:
            self.miss(f"it has more than {limit:,} members (limits.members); the rest was left out")
            return False
        name = self.names.take(member.name)
        if member.refused or member.size > self.most:
            self.miss(f"{name}: {member.refused or f'larger than {self.most:,} bytes (limits.bytes)'}")
            return True
        if member.size > self.left:
            self.miss(f"{name}: it would make the archive expand too much (limits.expansion)")
            return True
        try:
            self.reply.part({"name": name, "size": member.size}, self._bounded(member))
            self.sent += 1
        except Unreadable as error:  # the part was dropped by who received it
            self.miss(f"{name}: {error}")
        except _BROKEN:
            self.miss(f"{name}: damaged, it cannot be unpacked")
        return True

    def _bounded(self, member: Member) -> Iterator[bytes]:
        given = 0
        for piece in member.pieces:
            given += len(piece)
            self.left -= len(piece)
            if given > self.most or self.left < 0:
                raise TooMuch("it expands too much (limits.bytes, limits.expansion)")
            yield piece

    def miss(self, reason: str) -> None:
        if len(self.gaps) < 100:
            self.gaps.append(reason[:500])


def _entries(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> Iterator[Member]:
    file.seek(0)
    match media_type:
        case signature.ZIP:
            yield from _zip_members(file, arguments)
        case signature.TAR:
            yield from _tar_members(file, _rewound(file))
        case signature.GZIP:
            yield from _gzip_members(file, arguments)
        case textkind.MAIL:
            yield from (Member(name, len(raw), iter([raw])) for name, raw in mail.attachments(mail.parse(file)))
        case textkind.MBOX:
            yield from _mailbox_members(file)
        case oldoffice.MSG:
            yield from _outlook_members(file)


def _zip_members(file: BinaryIO, arguments: Mapping[str, Any]) -> Iterator[Member]:
    package = Package(file, arguments)
    entries = package.all
    if sum(entry.compress_size for entry in entries) > package.size:
        raise Suspicious("a zip bomb: its members overlap, the same bytes would be unpacked many times")
    if sum(entry.file_size for entry in entries) > package.allowed:
        raise Suspicious(f"a zip bomb: it would become more than {package.expansion} times as large (limits.expansion)")
    for entry in entries:
        if not _LITTER.search(entry.filename):
            refused = LOCKED if entry.flag_bits & 1 else LINK if stat.S_ISLNK(entry.external_attr >> 16) else ""
            yield Member(entry.filename, entry.file_size, package.pieces(entry), refused)


def _rewound(file: BinaryIO) -> int:
    """How long it is; it is at its beginning afterwards."""
    size = file.seek(0, 2)
    file.seek(0)
    return size


def _tar_members(stream: "BinaryIO | _Bound", room: int) -> Iterator[Member]:
    """`room` is more than a member can have: Python would skip one that claims to be larger block by block, for years."""
    try:
        with tarfile.open(fileobj=cast("BinaryIO", stream), mode="r|") as archive:
            for entry in archive:
                if entry.size > room:
                    raise Corrupt("damaged: the archive claims to hold a file that is larger than itself")
                content = archive.extractfile(entry) if entry.isreg() else None  # links and devices are no files
                if content is not None and not _LITTER.search(entry.name):
                    yield Member(entry.name, entry.size, iter(partial(content.read, _PIECE), b""))
    except Unreadable:
        raise
    except _BROKEN as error:
        raise Corrupt("damaged: the archive breaks off or is broken") from error


class _Bound:
    """A gzip stream that is read, and refused when it becomes too large: its true size is nowhere written."""

    def __init__(self, file: BinaryIO, arguments: Mapping[str, Any]) -> None:
        limits = arguments.get("limits", {})
        self.left = max(HARMLESS, int(limits.get("expansion", 200)) * file.seek(0, 2))
        file.seek(0)
        self._stream = gzip.GzipFile(fileobj=file, mode="rb")

    def read(self, size: int = _PIECE) -> bytes:
        try:
            piece = self._stream.read(min(size, 2**20))
        except _BROKEN as error:
            raise Corrupt("damaged: the archive breaks off or is broken") from error
        self.left -= len(piece)
        if self.left < 0:
            raise Suspicious("a gzip bomb: it expands too much (limits.expansion)")
        return piece


def _gzip_members(file: BinaryIO, arguments: Mapping[str, Any]) -> Iterator[Member]:
    """One file, or what is in the tar archive inside."""
    stream = _Bound(file, arguments)
    head = stream.read(512)
    if head[257:262] == b"ustar":
        bound = _Bound(file, arguments)
        yield from _tar_members(bound, bound.left)
        return
    stem = str(arguments.get("name", "")).rpartition("/")[2].rpartition("!/")[2]
    yield Member(re.sub(r"\.gz$", "", stem, flags=re.IGNORECASE) or "content", len(head), _chained(head, stream))


def _chained(head: bytes, stream: _Bound) -> Iterator[bytes]:
    while head:
        yield head
        head = stream.read()


def _outlook_members(file: BinaryIO) -> Iterator[Member]:
    for name, raw in outlook.attachments(file):
        refused = "" if raw is not None else "an object of another program inside of the mail, not a file"
        yield Member(name, len(raw or b""), iter([raw or b""]), refused)


def _mailbox_members(file: BinaryIO) -> Iterator[Member]:
    """Each mail of a mailbox; they begin with a line `From somebody …` behind a blank one."""
    file.seek(0)
    lines: list[bytes] = []
    number, blank = 0, True
    for line in file:
        if blank and line.startswith(b"From "):
            if lines:
                number += 1
                yield _mail_member(lines, number)
            lines = []
        else:
            lines.append(line[1:] if line.startswith(b">From ") else line)
        blank = not line.strip()
    if lines:
        yield _mail_member(lines, number + 1)


def _mail_member(lines: list[bytes], number: int) -> Member:
    raw = b"".join(lines)
    return Member(f"message {number:04}.eml", len(raw), iter([raw]))
