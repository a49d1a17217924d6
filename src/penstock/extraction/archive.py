"""Archives (zip, tar, gzip) and mailboxes: their text is the list of member names, and each archive member becomes a document.

`members` is the task that sends archive members, and the attachments of a mail. Members that are too large, too many, encrypted
or broken are skipped with a reason; an archive that is a bomb as a whole is refused earlier, when its list is read. A
member's name is safe as a relative path and unique within its archive.
"""

import gzip
import posixpath
import re
import stat
import tarfile
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, cast

from penstock.errors import Corrupt, Encrypted, Suspicious, TooMuch, Unreadable
from penstock.extraction import identify
from penstock.extraction.office import compound, outlook, package
from penstock.extraction.office.package import BROKEN, HARMLESS, LOCKED, Package
from penstock.extraction.result import ExtractedDocument, Gap, PageBuilder, TextAllowance, one_line
from penstock.extraction.sandbox.protocol import Reply
from penstock.extraction.text_formats import mail, text
from penstock.text import storable

_PIECE = 65_536
_LITTER = re.compile(r"(?:^|/)(?:__MACOSX/|\.DS_Store$|Thumbs\.db$|desktop\.ini$|\._)", re.IGNORECASE)
_BROKEN = (tarfile.TarError, *BROKEN)
_MOST_NAMES = 10_000
_LINK = "a link to another file, not a file"
_LONGEST_PART, _LONGEST = 255, 900  # bytes; the name of the parent stands before it
_DIRECTION_MARKS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class MemberNames:
    """Makes the names of members unique."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def take(self, name: str) -> str:
        safe = safe_name(name)
        number = self._next.get(safe, 1)
        unique = safe
        while unique in self._taken:
            number += 1
            stem, ending = posixpath.splitext(safe)
            unique = f"{stem} ({number}){ending}"
        self._next[safe] = number
        self._taken.add(unique)
        return unique


def safe_name(name: str) -> str:
    """The name as a relative path without `..`, control characters and direction marks."""
    name = unicodedata.normalize("NFC", storable(name, " ")).replace("\\", "/")
    name = "".join(" " if unicodedata.category(c) == "Cc" else c for c in name if c not in _DIRECTION_MARKS)
    if name[1:3] == ":/" and name[0].isalpha():
        name = name[3:]
    parts = [_short(part.strip(), _LONGEST_PART) for part in name.split("/")]
    parts = [part for part in parts if part not in ("", ".", "..")]
    while len(parts) > 1 and len("/".join(parts).encode()) > _LONGEST:
        parts.pop(0)
    return "/".join(parts) or "unnamed"


def _short(part: str, most: int) -> str:
    """At most so many bytes, with its ending kept."""
    if len(part.encode()) <= most:
        return part
    stem, ending = posixpath.splitext(part)
    ending = ending if len(ending.encode()) <= 20 else ""
    return stem.encode()[: most - len(ending.encode()) - 8].decode("utf-8", "ignore") + ending


@dataclass(slots=True)
class ArchiveMember:
    """A file inside an archive, with the size that the archive claims."""

    name: str
    size: int
    pieces: Iterator[bytes]
    refused: str = ""  # the reason why it is skipped


def read_archive(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> ExtractedDocument:
    draft = PageBuilder(TextAllowance(arguments))
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
    return ExtractedDocument(media_type, [page] if page.text else [], facts={"members": str(count)}, gaps=gaps)


def members(file: BinaryIO, arguments: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """Run the task "members": send each member as a part."""
    sender = _MemberSender(arguments, file.seek(0, 2), reply)
    try:
        for member in _entries(file, str(arguments.get("media_type", "")), arguments):
            if not sender.send(member):
                break
    except Unreadable as error:
        sender.skip(str(error))
    return {"members": sender.sent, "gaps": [{"page": None, "reason": reason} for reason in sender.gaps]}


@dataclass(slots=True)
class _MemberSender:
    """Sends members within the limits, and collects the reasons for those that it skips."""

    arguments: Mapping[str, Any]
    size: int
    reply: Reply
    names: MemberNames = field(default_factory=MemberNames)
    gaps: list[str] = field(default_factory=list)
    sent: int = 0
    left: int = 0
    most: int = 0

    def __post_init__(self) -> None:
        limits = self.arguments.get("limits", {})
        self.left = max(HARMLESS, int(limits.get("expansion", 200)) * self.size)
        self.most = int(limits.get("bytes", 2**31))

    def send(self, member: ArchiveMember) -> bool:
        """Return whether to continue with the next member."""
        limit = int(self.arguments.get("limits", {}).get("members", 1_000))
        if self.sent >= limit:
            self.skip(f"it has more than {limit:,} files inside (limits.members): the rest was skipped")
            return False
        name = self.names.take(member.name)
        if member.refused or member.size > self.most:
            self.skip(f"{name}: {member.refused or f'larger than {self.most:,} bytes (limits.bytes)'}")
            return True
        if member.size > self.left:
            self.skip(f"{name}: it would make the archive expand too much (limits.expansion)")
            return True
        try:
            self.reply.part({"name": name, "size": member.size}, self._bounded(member))
            self.sent += 1
        except Unreadable as error:  # the parent drops the part
            self.skip(f"{name}: {error}")
        except _BROKEN:
            self.skip(f"{name}: damaged, it cannot be unpacked")
        return True

    def _bounded(self, member: ArchiveMember) -> Iterator[bytes]:
        given = 0
        for piece in member.pieces:
            given += len(piece)
            self.left -= len(piece)
            if given > self.most or self.left < 0:
                raise TooMuch("it expands too much (limits.bytes, limits.expansion)")
            yield piece

    def skip(self, reason: str) -> None:
        if len(self.gaps) < 100:
            self.gaps.append(reason[:500])


def _entries(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> Iterator[ArchiveMember]:
    file.seek(0)
    match media_type:
        case package.ZIP:
            yield from _zip_members(file, arguments)
        case identify.TAR:
            size = file.seek(0, 2)
            file.seek(0)
            yield from _tar_members(file, size)
        case identify.GZIP:
            yield from _gzip_members(file, arguments)
        case text.MAIL:
            yield from (ArchiveMember(name, len(raw), iter([raw])) for name, raw in mail.attachments(mail.parse(file)))
        case text.MBOX:
            yield from _mailbox_members(file)
        case compound.MSG:
            yield from _outlook_members(file)


def _zip_members(file: BinaryIO, arguments: Mapping[str, Any]) -> Iterator[ArchiveMember]:
    archive = Package(file, arguments)
    entries = archive.all
    if sum(entry.compress_size for entry in entries) > archive.size:
        raise Suspicious("a zip bomb: its files overlap, so that the same bytes would be unpacked many times")
    if sum(entry.file_size for entry in entries) > archive.allowed:
        raise Suspicious(f"a zip bomb: it would become more than {archive.expansion} times as large (limits.expansion)")
    for entry in entries:
        if not _LITTER.search(entry.filename):
            refused = LOCKED if entry.flag_bits & 1 else _LINK if stat.S_ISLNK(entry.external_attr >> 16) else ""
            yield ArchiveMember(entry.filename, entry.file_size, archive.pieces(entry), refused)


def _tar_members(stream: "BinaryIO | _BoundedGzip", most: int) -> Iterator[ArchiveMember]:
    """Refuse a member that claims more than `most` bytes: Python would skip it block by block, for years."""
    try:
        with tarfile.open(fileobj=cast("BinaryIO", stream), mode="r|") as archive:
            for entry in archive:
                if entry.size > most:
                    raise Corrupt("damaged: the archive claims to contain a file that is larger than itself")
                content = archive.extractfile(entry) if entry.isreg() else None  # links and devices are not files
                if content is not None and not _LITTER.search(entry.name):
                    yield ArchiveMember(entry.name, entry.size, iter(partial(content.read, _PIECE), b""))
    except Unreadable:
        raise
    except _BROKEN as error:
        raise Corrupt("damaged: the archive is cut off or broken") from error


class _BoundedGzip:
    """A gzip stream that is refused while it is read, because its true size is not recorded in it."""

    def __init__(self, file: BinaryIO, arguments: Mapping[str, Any]) -> None:
        limits = arguments.get("limits", {})
        self.left = max(HARMLESS, int(limits.get("expansion", 200)) * file.seek(0, 2))
        file.seek(0)
        self._stream = gzip.GzipFile(fileobj=file, mode="rb")

    def read(self, size: int = _PIECE) -> bytes:
        try:
            piece = self._stream.read(min(size, 2**20))
        except _BROKEN as error:
            raise Corrupt("damaged: the archive is cut off or broken") from error
        self.left -= len(piece)
        if self.left < 0:
            raise Suspicious("a gzip bomb: it expands too much (limits.expansion)")
        return piece


def _gzip_members(file: BinaryIO, arguments: Mapping[str, Any]) -> Iterator[ArchiveMember]:
    """One file, or the members of the tar archive inside."""
    stream = _BoundedGzip(file, arguments)
    head = stream.read(512)
    if head[257:262] == b"ustar":
        stream = _BoundedGzip(file, arguments)
        yield from _tar_members(stream, stream.left)
        return
    stem = str(arguments.get("name", "")).rpartition("/")[2].rpartition("!/")[2]
    yield ArchiveMember(re.sub(r"\.gz$", "", stem, flags=re.IGNORECASE) or "content", len(head), _chained(head, stream))


def _chained(head: bytes, stream: _BoundedGzip) -> Iterator[bytes]:
    while head:
        yield head
        head = stream.read()


def _outlook_members(file: BinaryIO) -> Iterator[ArchiveMember]:
    for name, raw in outlook.attachments(file):
        refused = "" if raw is not None else "an object of another program, not a file"
        yield ArchiveMember(name, len(raw or b""), iter([raw or b""]), refused)


def _mailbox_members(file: BinaryIO) -> Iterator[ArchiveMember]:
    """Each mail of a mailbox; it begins with a line `From …` after a blank one."""
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


def _mail_member(lines: list[bytes], number: int) -> ArchiveMember:
    raw = b"".join(lines)
    return ArchiveMember(f"message {number:04}.eml", len(raw), iter([raw]))
