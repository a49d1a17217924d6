"""Archives: bombs, nests, names that leave the folder, claims and locks."""

import bz2
import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator

from penstock.errors import Corrupt, Encrypted, Unreadable, Unsupported
from tests.hostile.file import File, either, failed
from tests.hostile.pieces import (
    MEGABYTE,
    central_entry,
    directory,
    local_header,
    swelling,
    zip_claiming,
    zip_of,
    zip_with_bomb,
)

GZIP = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
NOTE = b"Water flows through the penstock."


def files() -> Iterator[File]:
    yield from zip_bombs()
    yield from zip_nests()
    yield from zip_names()
    yield from zip_claims()
    yield from zip_locks()
    yield from gzips()
    yield from tars()


def zip_bombs() -> Iterator[File]:
    def forty_two() -> bytes:  # 16 archives of 16 archives of … 2 GB of zeros
        level = zip_with_bomb([], "0.dll", bytes(MEGABYTE), 500)
        for name in "abcd":
            level = zip_of((f"{name}{n}.zip", level) for n in range(16))
        return level

    def overlapping() -> bytes:  # 5,000 members that are all the same 100 MB
        body, name = swelling(bytes(MEGABYTE), 100), b"0.txt"
        crc = zlib.crc32(bytes(100 * MEGABYTE))
        start = local_header(name, 8, len(body), 100 * MEGABYTE, crc=crc) + body
        entry = central_entry(name, 8, len(body), 100 * MEGABYTE, crc=crc)
        return start + directory(entry * 5_000, 5_000, len(start))

    def many() -> bytes:
        names = [b"%d" % n for n in range(5_000)]
        heads = [local_header(name, 0, 0, 0) for name in names]
        at, entries = 0, []
        for name, head in zip(names, heads, strict=True):
            entries.append(central_entry(name, 0, 0, 0, at=at))
            at += len(head)
        return b"".join(heads) + directory(b"".join(entries), len(names), at)

    yield either("zip-42.zip", forty_two)
    yield either("zip-flat-overlap.zip", overlapping)
    yield either("zip-one-member-swells.zip", lambda: zip_with_bomb([("a.txt", NOTE)], "b.txt", b" " * MEGABYTE, 400))
    yield either("zip-member-lies-about-its-size.zip", lambda: zip_claiming(b"a.txt", swelling(b"a " * 2**19, 400), 10))
    yield either(
        "zip-bzip2-bomb.zip", lambda: zip_claiming(b"a.txt", bz2.compress(bytes(64 * MEGABYTE)), 2**31, method=12)
    )
    # LZMA with a dictionary of 4 GB: whoever unpacks it may allocate that much.
    yield either(
        "zip-lzma-dictionary.zip",
        lambda: zip_claiming(b"a.txt", b"\x09\x14\x05\0\x5d\xff\xff\xff\xff" + bytes(99), 2**31, method=14),
    )
    yield either("zip-5000-members.zip", many)


def zip_nests() -> Iterator[File]:
    def deep(levels: int) -> bytes:
        inner = zip_of([("note.txt", NOTE)])
        for level in range(levels):
            inner = zip_of([(f"{level}.zip", inner)])
        return inner

    yield either("zip-in-zip-200-deep.zip", lambda: deep(200))
    yield either("zip-in-zip-4-deep.zip", lambda: deep(4))
    yield either("zip-of-folders.zip", lambda: zip_of((f"{'a/' * n}", b"") for n in range(1, 300)))
    yield either("zip-empty.zip", lambda: directory(b"", 0, 0))
    yield either("zip-behind-something-else.zip", lambda: b"#" * 100_000 + zip_of([("note.txt", NOTE)]))


def zip_names() -> Iterator[File]:
    names = (
        "../../../../etc/cron.d/penstock", "/etc/passwd", "C:\\Windows\\win.ini", "..\\..\\boot.ini", "a/../../b.txt",
        "./././x", "con.txt", "a" * 5_000 + ".txt", "\u202egpj.exe", "note\x00.txt", "bell\x07\x1b[2J.txt", "...",
        " ", "-rf", "a//b", "e\u0301.txt",
    )  # fmt: skip

    def evil() -> bytes:
        return zip_of((name, NOTE) for name in names)

    def same() -> bytes:
        start = local_header(b"same.txt", 0, len(NOTE), len(NOTE), crc=zlib.crc32(NOTE)) + NOTE
        entry = central_entry(b"same.txt", 0, len(NOTE), len(NOTE), crc=zlib.crc32(NOTE))
        return start + directory(entry * 300, 300, len(start))

    def link() -> bytes:
        target = b"/etc/passwd"
        start = local_header(b"note.txt", 0, len(target), len(target), crc=zlib.crc32(target)) + target
        entry = central_entry(b"note.txt", 0, len(target), len(target), crc=zlib.crc32(target), mode=0o120777)
        return start + directory(entry, 1, len(start))

    yield either("zip-evil-names.zip", evil)
    yield either("zip-300-times-one-name.zip", same)
    yield either("zip-symbolic-link.zip", link)
    yield either(
        "zip-name-not-utf-8.zip",
        lambda: zip_claiming(b"\xff\xfe\xed\xa0\x80.txt", NOTE, len(NOTE), method=0, flags=0x800),
    )
    yield either("zip-name-of-65535-characters.zip", lambda: zip_claiming(b"n" * 65_535, NOTE, len(NOTE), method=0))


def zip_claims() -> Iterator[File]:
    good = zip_of([("note.txt", NOTE)])

    def patched(at: int, new: bytes) -> bytes:
        return good[:at] + new + good[at + len(new) :]

    start, end = good.index(b"PK\1\2"), good.index(b"PK\5\6")
    yield either("zip-wrong-sum.zip", lambda: zip_claiming(b"note.txt", NOTE, len(NOTE), method=0, crc=7))
    yield either("zip-unknown-method.zip", lambda: zip_claiming(b"note.txt", NOTE, len(NOTE), method=77))
    yield either("zip-claims-4-gigabytes.zip", lambda: zip_claiming(b"note.txt", NOTE, 2**32 - 2, method=0))
    yield either("zip-member-beyond-the-end.zip", lambda: patched(start + 42, b"\xff\xff\xff\x7f"))
    yield either("zip-directory-beyond-the-end.zip", lambda: patched(end + 16, b"\xff\xff\xff\x7f"))
    yield failed(
        "zip-directory-claims-65000.zip", lambda: patched(end + 8, b"\xe8\xfd\xe8\xfd\xff\xff\xff\x0f"), Unreadable
    )
    yield failed("zip-only-four-bytes.zip", lambda: b"PK\3\4", Corrupt)
    yield either("zip-headers-disagree.zip", lambda: patched(26, b"\xff\x7f"))


def zip_locks() -> Iterator[File]:
    yield failed(
        "zip-encrypted.zip",
        lambda: zip_claiming(b"secret.txt", bytes(range(60)), 48, flags=1),
        Encrypted,
        says="password",
    )
    yield failed(
        "zip-encrypted-aes.zip",
        lambda: zip_claiming(b"secret.txt", bytes(range(60)), 32, method=99, flags=1),
        Encrypted,
        says="password",
    )


def gzips() -> Iterator[File]:
    bomb = GZIP + swelling(bytes(MEGABYTE), 600) + bytes(8)
    yield either("gzip-bomb.gz", lambda: bomb)
    yield either("gzip-in-gzip.txt.gz.gz", lambda: gzip.compress(bomb, mtime=0))
    yield either("gzip-20000-empty-parts.gz", lambda: gzip.compress(b"", mtime=0) * 20_000)
    yield either("gzip-endless-name.gz", lambda: GZIP[:3] + b"\x08" + GZIP[4:] + b"n" * 300_000)
    yield either("gzip-in-gzip-50-deep.gz", lambda: _again(NOTE, 50))
    yield either("gzip-garbage.gz", lambda: GZIP + b"\xff" * 1000, Unreadable)
    yield failed("xz-bomb.xz", lambda: b"\xfd7zXZ\0\0\4" + bytes(2000), Unsupported)
    yield failed("bzip2-bomb.bz2", lambda: bz2.compress(bytes(32 * MEGABYTE)), Unsupported)
    yield failed("seven-zip.7z", lambda: b"7z\xbc\xaf\x27\x1c\0\4" + b"\xff" * 200, Unsupported)


def _again(content: bytes, times: int) -> bytes:
    for _ in range(times):
        content = gzip.compress(content, mtime=0)
    return content


def tars() -> Iterator[File]:
    def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for entry, content in members:
                archive.addfile(entry, io.BytesIO(content))
        return made.getvalue()

    def entry(name: str, size: int = len(NOTE), kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
        made = tarfile.TarInfo(name)
        made.size, made.type, made.linkname = size, kind, link
        return made

    def crowd() -> bytes:
        return gzip.compress(tar(*((entry(f"{n}", 0), b"") for n in range(5_000))), mtime=0)

    def claiming() -> bytes:  # one file of 8 exabytes
        head = bytearray(entry("big.txt", 0).tobuf(tarfile.GNU_FORMAT))
        head[124:136] = b"\x80" + (2**63 - 1).to_bytes(11, "big")
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
        return bytes(head) + NOTE

    names = ("../../etc/shadow", "/etc/passwd", "a" * 5_000, "note\u202e.txt", "..", "")
    yield either("tar-evil-names.tar", lambda: tar(*((entry(name), NOTE) for name in names)))
    yield either("tar-links.tar", lambda: tar(
        (entry("here", 0, tarfile.SYMTYPE, "/etc"), b""), (entry("here/passwd"), NOTE),
        (entry("loop", 0, tarfile.LNKTYPE, "loop"), b"")
    ))  # fmt: skip
    yield either(
        "tar-devices.tar",
        lambda: tar((entry("zero", 0, tarfile.CHRTYPE), b""), (entry("pipe", 0, tarfile.FIFOTYPE), b"")),
    )
    yield failed("tar-claims-8-exabytes.tar", claiming, Corrupt, says="larger than itself")
    yield either("tar-5000-members.tar.gz", crowd)
    yield either(
        "tar-swells.tar.gz",
        lambda: GZIP + swelling(tar((entry("z", MEGABYTE), bytes(MEGABYTE)))[: 512 + MEGABYTE], 400) + bytes(8),
    )
