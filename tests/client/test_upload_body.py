"""Sources: what they are called, how long they are, whether they can be sent again."""

import io
import os
from pathlib import Path

import pytest

from penstock.client import SourceChanged
from penstock.client.upload_body import PIECE, Form, content_of


async def test_both_flavours_send_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(os.urandom(2 * PIECE + 1))
    with path.open("rb") as opened:
        for source in (path, str(path), path.read_bytes(), memoryview(path.read_bytes()), opened):
            content = content_of(source)
            assert (content.size, content.repeatable) == (2 * PIECE + 1, True)
            assert b"".join(content.pieces()) == path.read_bytes()
            assert b"".join([piece async for piece in content.async_pieces()]) == path.read_bytes()


async def test_a_form(tmp_path: Path) -> None:
    form = Form({'a"\n': content_of(b"water")}, "wall")
    whole = b'--wall\r\nContent-Disposition: form-data; name="file"; filename="a%22%0A"\r\n\r\nwater\r\n--wall--\r\n'
    assert b"".join(form.pieces()) == whole
    assert b"".join([piece async for piece in form.async_pieces()]) == whole
    assert not Form({"a": content_of(iter([b"water"]))}, "wall").repeatable


@pytest.mark.parametrize("later", [b"more water", b"less", b""])
def test_a_file_that_changes_is_noticed(tmp_path: Path, later: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"water")
    content = content_of(path)
    path.write_bytes(later)
    with pytest.raises(SourceChanged, match="5 bytes"):
        list(content.pieces())


def test_what_can_be_sent_once() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    content = content_of(Pipe(b"water"))
    assert (content.size, content.repeatable) == (None, False)
    assert list(content.pieces()) == [b"water"]


def test_a_missing_file_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        content_of(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        content_of(tmp_path)
