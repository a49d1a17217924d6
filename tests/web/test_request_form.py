"""Forms of any shape, cut anywhere, come out as they went in; broken ones are refused."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import BadRequest, BadValue
from penstock.web.middleware.request_body import FIELD, Form

BOUNDARY = "b0undary"
TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def encode(parts: list[tuple[str, str | None, bytes]]) -> bytes:
    body = b""
    for name, file_name, content in parts:
        file = "" if file_name is None else f'; filename="{file_name}"'
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
        body += head.encode() + content + b"\r\n"
    return body + f"--{BOUNDARY}--\r\n".encode()


async def pour(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def read_all(body: bytes, size: int, content_type: str = TYPE) -> list[tuple[str, str | None, bytes]]:
    form = Form(content_type, pour(body, size))
    return [
        (part.name, part.file_name, b"".join([piece async for piece in form.content()])) async for part in form.parts()
    ]


names = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"\\;%'), min_size=1, max_size=20)
# What looks like a boundary is the hard part.
contents = st.lists(st.sampled_from([b"\r\n", b"--", b"b0undar", b"\r", b"x", b"\0", b"\r\n--b0undar"])).map(b"".join)


@given(st.lists(st.tuples(names, st.none() | names, contents), min_size=1, max_size=4), st.integers(1, 60))
async def test_what_goes_in_comes_out(parts: list[tuple[str, str | None, bytes]], size: int) -> None:
    assert await read_all(encode(parts), size) == parts


async def test_a_part_that_is_not_read_is_skipped() -> None:
    form = Form(TYPE, pour(encode([("a", "a.txt", b"x" * 1000), ("b", "b.txt", b"y")]), 100))
    seen = []
    async for part in form.parts():
        seen.append(part.file_name)
        if part.name == "a":
            assert await anext(form.content())
    assert seen == ["a.txt", "b.txt"]


async def test_names_as_browsers_write_them() -> None:
    [(_, name, _)] = await read_all(encode([("file", "a %22b%22 é 🙂.txt", b"")]), 10)
    assert name == 'a "b" é 🙂.txt'


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("cut", [3, 30, -1, -4, -20])
async def test_a_form_that_is_cut(size: int, cut: int) -> None:
    body = encode([("file", "a.txt", b"some content")]).removesuffix(b"\r\n")
    with pytest.raises(BadRequest):
        await read_all(body[:cut], size)


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/mixed; boundary=x",
        "multipart/form-data; boundary=" + "x" * 300,
    ],
)
async def test_what_is_no_form(content_type: str) -> None:
    with pytest.raises(BadRequest):
        await read_all(b"hello", 10, content_type)


@pytest.mark.parametrize("body", [b"hello", b"--other\r\n\r\n\r\n--other--", b"--b0undary\r\nno header\r\n\r\nx"])
async def test_a_body_that_does_not_fit_its_type(body: bytes) -> None:
    with pytest.raises(BadRequest):
        await read_all(body, 10)


async def test_headers_without_end() -> None:
    with pytest.raises(BadRequest):
        await read_all(b"--b0undary\r\nX: " + b"x" * 100_000, 1000)


async def test_a_name_that_is_not_utf8() -> None:
    body = encode([("file", "@", b"")]).replace(b"@", b"\xff")
    with pytest.raises(BadValue):
        await read_all(body, 10)


async def test_a_field_without_end() -> None:
    form = Form(TYPE, pour(encode([("metadata", None, b"x" * (FIELD + 1))]), 10_000))
    part = await anext(form.parts())
    with pytest.raises(BadValue):
        await form.text(part)
