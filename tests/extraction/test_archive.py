"""Members of archives: bounded, safely named, and what is missing is said."""

import gzip
import io
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import Corrupt, Encrypted, Suspicious
from penstock.extraction.archive import MemberNames, members, safe_name
from tests.extraction import sample_files
from tests.extraction.sent_files import SentFiles

_ZIP = "application/zip"


def unpack(raw: bytes, media_type: str = _ZIP, name: str = "", **limits: int) -> tuple[dict[str, bytes], list[str]]:
    parts = SentFiles()
    told = members(io.BytesIO(raw), sample_files.arguments(name, **limits) | {"media_type": media_type}, parts)
    assert told["members"] == len(parts.files)
    return parts.files, [gap["reason"] for gap in told["gaps"]]


def test_an_archive_lists_its_names() -> None:
    reading = sample_files.read(
        sample_files.zipped({"a.txt": "x", "sub/b.txt": "y", "__MACOSX/a.txt": "z", "sub/.DS_Store": "z"})
    )
    assert reading.media_type == _ZIP
    assert sample_files.text_of(reading) == "a.txt\nsub/b.txt"
    assert reading.facts["members"] == "2"


def test_a_list_of_names_that_is_cut_says_so() -> None:
    reading = sample_files.read(sample_files.zipped({f"{n}": b"" for n in range(10_050)}))
    assert sample_files.text_of(reading).count("\n") == 9_999
    assert "first 10,000 of its 10,050 names" in reading.gaps[0].reason


def test_a_member_without_a_name_gets_one() -> None:
    raw = sample_files.zipped({"x": "one"}).replace(
        b"\x01\0\0\0x", b"\0\0\x01\0x"
    )  # the name becomes part of the extra field
    central = raw.index(b"PK\1\2")
    raw = raw[:central] + raw[central:].replace(b"\x01\0\0\0\0\0", b"\0\0\x01\0\0\0", 1)
    reading = sample_files.read(raw)
    assert sample_files.text_of(reading) == "unnamed"


def test_members_are_sent() -> None:
    files, gaps = unpack(sample_files.zipped({"a.txt": "x" * 200_000, "sub/b.txt": "y", "empty": ""}))
    assert files == {"a.txt": b"x" * 200_000, "sub/b.txt": b"y", "empty": b""}
    assert gaps == []


def test_an_empty_archive_has_a_reason() -> None:
    assert "empty" in sample_files.read(sample_files.zipped({})).gaps[0].reason


def test_names_lead_nowhere_else() -> None:
    names = [
        "../../etc/passwd",
        "/abs",
        "C:\\win\\x.doc",
        "a\0b",
        "x" * 400 + ".pdf",
        "dup",
        "./dup",
        "..",
        "\u202efdp.exe",
    ]
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in names:
            entry = zipfile.ZipInfo("place")
            entry.filename = name
            archive.writestr(entry, name)
    files, _ = unpack(target.getvalue())
    found = list(files)
    assert found[:3] == ["etc/passwd", "abs", "win/x.doc"]
    assert found[5:] == ["dup", "dup (2)", "unnamed", "fdp.exe"]
    assert found[4].endswith(".pdf") and len(found[4]) <= 255


@given(st.lists(st.text(max_size=400), max_size=20))
def test_any_names_become_safe_and_different(raw: list[str]) -> None:
    taken = MemberNames()
    names = [taken.take(name) for name in raw]
    assert len(set(names)) == len(names)
    for name in names:
        parts = name.split("/")
        assert not {"", ".", ".."} & set(parts)
        assert all(len(part.encode()) <= 262 for part in parts)
        assert name.isprintable() or "\n" not in name
        assert not any(ord(character) < 32 for character in name)


def test_a_thousand_equal_names_are_quick() -> None:
    taken = MemberNames()
    assert [taken.take("a.txt") for _ in range(5_000)][-1] == "a (5000).txt"
    assert safe_name("a/../../b") == "a/b"


def test_more_members_than_allowed_are_left_out() -> None:
    files, gaps = unpack(sample_files.zipped({f"{n}.txt": "x" for n in range(20)}), members=5)
    assert len(files) == 5
    assert "more than 5 files inside (limits.members)" in gaps[0]


def test_a_member_that_is_too_large_is_left_out() -> None:
    files, gaps = unpack(sample_files.zipped({"big": "x" * 5_000, "small": "y"}), bytes=1_000)
    assert files == {"small": b"y"}
    assert gaps == ["big: larger than 1,000 bytes (limits.bytes)"]


def test_a_bomb_is_refused_as_a_whole() -> None:
    bomb = sample_files.zipped({f"{n}": bytes(50_000_000) for n in range(2)})
    with pytest.raises(Suspicious, match="zip bomb"):
        sample_files.read(bomb)
    files, gaps = unpack(bomb)
    assert not files and "zip bomb" in gaps[0]


def test_a_member_that_lies_about_its_size_is_left_out() -> None:
    files, gaps = unpack(sample_files.lying_zip("a.txt", bytes(100_000_000), said=1_000))
    assert files == {} and gaps == ["a.txt: damaged: its part 'a.txt' cannot be unpacked"]


def test_overlapping_members_are_a_bomb() -> None:
    raw = bytearray(sample_files.zipped({f"{n}.txt": bytes(range(256)) * 40 for n in range(3)}))
    end = raw.rindex(b"PK\5\6")
    start = int.from_bytes(raw[end + 16 : end + 20], "little")
    directory = bytes(raw[start:end])
    raw[start:end] = directory * 20
    end = raw.rindex(b"PK\5\6")
    raw[end + 8 : end + 12] = (60).to_bytes(2, "little") * 2
    raw[end + 12 : end + 16] = (len(directory) * 20).to_bytes(4, "little")
    files, gaps = unpack(bytes(raw))
    assert not files and "overlap" in gaps[0]
    with pytest.raises(Suspicious, match="overlap"):
        sample_files.read(bytes(raw))


def encrypted_zip(*, all_of_it: bool) -> bytes:
    raw = bytearray(sample_files.zipped({"secret.txt": "x"} if all_of_it else {"secret.txt": "x", "open.txt": "y"}))
    raw[6] |= 1  # the flag in the first local header, and in the first entry of the directory
    raw[raw.index(b"PK\1\2") + 8] |= 1
    return bytes(raw)


def test_encrypted_members_are_named() -> None:
    files, gaps = unpack(encrypted_zip(all_of_it=False))
    assert files == {"open.txt": b"y"}
    assert gaps == ["secret.txt: encrypted: a password is needed"]


def test_an_archive_of_encrypted_members_is_encrypted() -> None:
    with pytest.raises(Encrypted, match="a password is needed"):
        sample_files.read(encrypted_zip(all_of_it=True))


def test_a_broken_member_does_not_hide_the_others() -> None:
    raw = bytearray(sample_files.zipped({"bad.txt": bytes(range(256)) * 10, "good.txt": "fine"}, stored=["bad.txt"]))
    raw[60] ^= 0xFF
    files, gaps = unpack(bytes(raw))
    assert files == {"good.txt": b"fine"}
    assert gaps[0].startswith("bad.txt: damaged")


def tarred(compress: str = "") -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=f"w:{compress}") as archive:  # type: ignore[call-overload]
        for name, content in (("a.txt", b"one"), ("sub/b.txt", b"two")):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return target.getvalue()


def test_tar_archives_have_members_and_no_links() -> None:
    wanted = {"a.txt": b"one", "sub/b.txt": b"two"}
    assert unpack(tarred(), "application/x-tar") == (wanted, [])
    assert unpack(tarred("gz"), "application/gzip") == (wanted, [])
    assert sample_files.text_of(sample_files.read(tarred("gz"))) == "a.txt\nsub/b.txt"


def test_a_gzip_file_has_one_member() -> None:
    raw = gzip.compress(b"words " * 100_000)
    assert unpack(raw, "application/gzip", "notes.txt.gz") == ({"notes.txt": b"words " * 100_000}, [])


def test_a_gzip_bomb_is_cut() -> None:
    files, gaps = unpack(gzip.compress(bytes(100_000_000)), "application/gzip", "a.gz")
    assert files == {} and "gzip bomb" in gaps[0]


@pytest.mark.parametrize("cut", [100, 600])
def test_a_broken_tar_archive_says_so(cut: int) -> None:
    with pytest.raises(Corrupt, match="cut off or broken"):
        sample_files.read(tarred("gz")[:cut][: len(tarred("gz")) - 30])


def test_a_mailbox_is_many_mails() -> None:
    one = b"From: a@b.c\nTo: d@e.f\nSubject: n\n\nText\n>From here on\n\n"
    raw = b"".join(b"From a@b.c Mon Jan  1 10:00:00 2024\n" + one for _ in range(3))
    files, gaps = unpack(raw, "application/mbox")
    assert list(files) == ["message 0001.eml", "message 0002.eml", "message 0003.eml"] and not gaps
    assert files["message 0001.eml"].endswith(b"Text\nFrom here on\n\n")
    assert sample_files.read(raw).facts["members"] == "3"


def test_two_members_of_one_name_are_both_there() -> None:
    raw = sample_files.zipped({"a.txt": "first", "b.txt": "second"}).replace(b"b.txt", b"a.txt")
    files, gaps = unpack(raw)
    assert files == {"a.txt": b"first", "a (2).txt": b"second"} and not gaps


def test_links_are_no_members() -> None:
    raw = bytearray(sample_files.zipped({"link.txt": "/etc/passwd", "file.txt": "x"}))
    at = raw.index(b"PK\1\2")
    raw[at + 38 : at + 42] = (0o120777 << 16).to_bytes(4, "little")
    files, gaps = unpack(bytes(raw))
    assert files == {"file.txt": b"x"}
    assert gaps == ["link.txt: a link to another file, not a file"]


def test_a_tar_that_claims_more_than_it_can_hold_is_damaged() -> None:
    """Python would skip the member in steps of ten kilobytes, for years."""
    head = bytearray(tarfile.TarInfo("big.txt").tobuf(tarfile.GNU_FORMAT))
    head[124:136] = b"\x80" + (2**63 - 1).to_bytes(11, "big")
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    with pytest.raises(Corrupt, match="larger than itself"):
        sample_files.read(bytes(head) + b"x" * 1024)
