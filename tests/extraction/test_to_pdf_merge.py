"""Several PDFs as one: pages in order, an outline, nothing that acts by itself, and the same bytes each time."""

import io
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pikepdf
import pytest
from PIL import Image
from typing_extensions import override

from penstock.errors import NothingInside, TooMuch
from penstock.extraction import SandboxPool
from penstock.extraction.to_pdf.merge import FileSlice, merge
from penstock.settings import Settings
from tests.extraction import sample_files
from tests.extraction.pdf_results import Merged, Parts, bundle, call, merged
from tests.extraction.sample_pdfs import FONT, draw_text, encode, one_page, picture, scan_pdf, stream, text_pdf


def paper(*words: str) -> bytes:
    return text_pdf(*[[(50, 700, 12, word)] for word in words])


def test_pages_outline_and_title() -> None:
    result = merged(
        [paper("a1", "a2"), paper("b1"), paper("c1", "c2", "c3")], ["Offer", "Größe 漢字", ""], "The packet"
    )
    assert result.texts == ["a1", "a2", "b1", "c1", "c2", "c3"]
    assert result.outline == [("Offer", 1), ("Größe 漢字", 3), ("Document 3", 4)]
    assert result.told == {
        "pages": 6,
        "documents": [
            {"first": 1, "pages": 2, "reason": ""},
            {"first": 3, "pages": 1, "reason": ""},
            {"first": 4, "pages": 3, "reason": ""},
        ],
    }
    with result.open() as document:
        assert document.docinfo["/Title"] == "The packet"
        assert "/CreationDate" not in document.docinfo and "/ModDate" not in document.docinfo
        assert not document.get_warnings()


def locked(user: str = "x") -> bytes:
    written = io.BytesIO()
    with pikepdf.open(io.BytesIO(paper("secret"))) as document:
        document.save(written, encryption=pikepdf.Encryption(user=user, owner="y"))
    return written.getvalue()


def test_what_opens_without_a_password_is_taken() -> None:
    result = merged([paper("a"), locked(user="")])
    assert result.texts == ["a", "secret"]
    with result.open() as document:
        assert not document.is_encrypted


def test_what_is_broken_is_left_out() -> None:
    result = merged([paper("a"), b"%PDF-1.7 nothing of it is left", b"", locked(), paper("b", "c")])
    assert result.texts == ["a", "b", "c"]
    assert result.outline == [("Document 1", 1), ("Document 5", 2)]
    first, *broken, last = result.told["documents"]
    assert (first["first"], last["first"], last["pages"]) == (1, 2, 2)
    assert all(one["first"] is None and one["pages"] == 0 and len(one["reason"]) > 10 for one in broken)
    assert (
        "damaged" in broken[0]["reason"] and "merged PDF" in broken[1]["reason"] and "encrypted" in broken[2]["reason"]
    )


def test_a_document_beyond_the_bundle() -> None:
    raw, listed = bundle([paper("a")])
    listed.append({"start": len(raw) - 10, "size": 100, "title": "beyond"})
    parts = Parts()
    told = merge(io.BytesIO(raw), sample_files.arguments() | {"documents": listed}, parts)
    assert told["pages"] == 1 and "merged PDF" in told["documents"][1]["reason"]


def test_nothing_that_can_be_taken() -> None:
    with pytest.raises(NothingInside):
        merged([b"%PDF-1.7 broken", b"%PDF-1.4"])


def test_too_many_pages() -> None:
    with pytest.raises(TooMuch, match=r"limits\.pages"):
        merged([paper("a", "b"), paper("c", "d")], pages=3)


def armed() -> bytes:
    """A page with all that a PDF can do by itself, and a link that may stay."""
    script = b"<</S/JavaScript/JS(app.alert\\(1\\))>>"
    notes = [
        b"<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/A%s>>" % script,
        b"<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/A<</S/Launch/F(calc.exe)>>>>",
        b"<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/A<</S/URI/URI(https://example.org)/Next%s>>>>" % script,
        b"<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/A<</S/URI/URI(javascript:alert\\(1\\))>>>>",
        b"<</Type/Annot/Subtype/FileAttachment/Rect[0 0 9 9]/FS<</Type/Filespec/F(x.exe)/EF<</F 6 0 R>>>>>>",
        b"<</Type/Annot/Subtype/Text/Rect[0 0 9 9]/Contents(a remark)/AA<</E%s>>>>" % script,
        b"<</Type/Annot/Subtype/Text/Rect[0 0 9 9]/IRT 8 0 R>>",
        b"7 0 R",
    ]
    field = b"<</Type/Annot/Subtype/Widget/FT/Tx/T(total)/V(12)/Rect[0 0 9 9]/AA<</K%s>>>>" % script
    entries = b"/Resources%s/AA<</O%s>>/Annots[%s]" % (FONT, script, b" ".join(notes))
    raw = one_page(
        entries,
        draw_text([(50, 700, 12, "armed")]),
        b"<</Names[(x)%s]>>" % script,
        stream(b"MZ program", b"/Type/EmbeddedFile"),
        field,
        b"<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/A 9 0 R/Parent<</T(above)/AA<</K 9 0 R>>>>>>",
        script,
    )
    names = b"<</JavaScript 5 0 R/EmbeddedFiles<</Names[(x.exe)<</Type/Filespec/F(x.exe)/EF<</F 6 0 R>>>>]>>>>"
    catalog = b"/Type/Catalog/OpenAction%s/AA<</WC%s>>/Names%s/AcroForm<</Fields[7 0 R]/XFA(x)/CO[7 0 R]>>" % (
        script,
        script,
        names,
    )
    return raw.replace(b"/Type/Catalog", catalog, 1)  # the table of places is wrong now, which is repaired


def test_what_acts_by_itself_is_dropped() -> None:
    result = merged([paper("before"), armed(), armed()])
    assert result.texts == ["before", "armed", "armed"]
    with result.open() as document:
        shown = io.BytesIO()
        document.save(shown, qdf=True, object_stream_mode=pikepdf.ObjectStreamMode.disable)
        raw = shown.getvalue()
        for word in (
            b"JavaScript",
            b"javascript",
            b"Launch",
            b"EmbeddedFile",
            b"Filespec",
            b"OpenAction",
            b"XFA",
        ):
            assert word not in raw, word
        notes = list(document.pages[1].obj["/Annots"])
        assert [str(note["/Subtype"]) for note in notes].count("/Text") == 2
        assert [str(note["/A"]["/URI"]) for note in notes if "/A" in note] == ["https://example.org"]
        names = [field.fully_qualified_name for field in document.acroform.fields]
        assert len(names) == len(set(names)) == 2  # both fields are there, one under another name
        assert {str(field.obj["/V"]) for field in document.acroform.fields} == {"12"}


def test_links_lead_to_their_pages() -> None:
    """By name or by place, also when two documents use the same name."""
    document = pikepdf.open(io.BytesIO(paper("from", "to")))
    link: dict[str, Any] = {"/Type": pikepdf.Name.Annot, "/Subtype": pikepdf.Name.Link, "/Rect": [0, 0, 9, 9]}
    places = [
        pikepdf.Dictionary(link | {"/Dest": pikepdf.String("there")}),
        pikepdf.Dictionary(link | {"/A": pikepdf.Dictionary(S=pikepdf.Name.GoTo, D=pikepdf.Name("/old"))}),
        pikepdf.Dictionary(link | {"/Dest": pikepdf.Array([document.pages[1].obj, pikepdf.Name.Fit])}),
    ]
    document.pages[0].obj["/Annots"] = pikepdf.Array(places)
    tree = pikepdf.NameTree.new(document)
    tree["there"] = pikepdf.Dictionary(D=pikepdf.Array([document.pages[1].obj, pikepdf.Name.Fit]))
    document.Root["/Names"] = pikepdf.Dictionary(Dests=tree.obj)
    document.Root["/Dests"] = pikepdf.Dictionary({"/old": pikepdf.Array([document.pages[1].obj, pikepdf.Name.Fit])})
    written = io.BytesIO()
    document.save(written)
    with merged([written.getvalue(), written.getvalue()]).open() as result:
        for first in (0, 2):
            one, two, three = result.pages[first].obj["/Annots"]
            for place in (one["/Dest"], two["/A"]["/D"], three["/Dest"]):
                assert place[0].objgen == result.pages[first + 1].obj.objgen


def test_damage_that_shows_only_when_contents_are_read() -> None:
    """A place inside of the second document's image cannot be read, which is noticed when the result is written."""
    documents = [paper("a"), scan_pdf(Image.effect_noise((300, 300), 90).convert("RGB")), paper("c")]
    raw, listed = bundle(documents)
    damaged = listed[1]["start"] + listed[1]["size"] // 2

    class Failing(io.BytesIO):
        @override
        def read(self, size: int | None = -1, /) -> bytes:
            at = self.tell()
            content = super().read(size)
            if at <= damaged < at + len(content):
                raise ValueError("this place cannot be read")
            return content

    parts = Parts()
    told = merge(Failing(raw), sample_files.arguments() | {"documents": listed}, parts)
    assert [one["first"] for one in told["documents"]] == [1, None, 2]
    assert "damaged" in told["documents"][1]["reason"]
    assert Merged(told, parts.content).texts == ["a", "c"]


def test_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    documents = [armed(), paper("b"), armed()]
    here = merged(documents, title="x").pdf
    for number, document in enumerate(documents):
        (tmp_path / f"{number}.pdf").write_bytes(document)
    code = (
        "import sys, pathlib; from tests.extraction.pdf_results import merged\n"
        "raws = [path.read_bytes() for path in sorted(pathlib.Path(sys.argv[1]).iterdir())]\n"
        "sys.stdout.buffer.write(merged(raws, title='x').pdf)"
    )
    there = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True).stdout
    assert here == there


def test_a_slice_is_a_file() -> None:
    view = FileSlice(io.BytesIO(b"0123456789"), 2, 5)
    assert view.read() == b"23456" and view.read() == b""
    assert view.seek(-2, io.SEEK_END) == 3 and view.read(9) == b"56"
    assert view.seek(100) == 100 and view.read(1) == b"" and view.tell() == 100
    with pytest.raises(ValueError, match="before the beginning"):
        view.seek(-1)


@pytest.fixture
async def sandboxes(settings: Settings) -> AsyncIterator[SandboxPool]:
    async with SandboxPool(settings) as sandboxes:
        yield sandboxes


async def test_merge_in_a_sandbox(sandboxes: SandboxPool) -> None:
    """Of what `convert` made: a text, an image, a PDF."""
    sources: Iterable[tuple[bytes, str]] = [
        ("Γειά σου".encode(), "a.txt"),
        (encode(picture([(10, 10, 40, "b")]), "PNG"), "b.png"),
        (paper("c1", "c2"), "c.pdf"),
    ]
    documents = [(await call(sandboxes, "convert", raw, name=name))[2] for raw, name in sources]
    raw, listed = bundle(documents)
    told, header, pdf = await call(sandboxes, "merge", raw, documents=listed, title="all")
    assert header == {"name": "merged.pdf"}
    assert [one["first"] for one in told["documents"]] == [1, 2, 3] and told["pages"] == 4
    assert Merged(told, pdf).texts == ["Γειά σου", "", "c1", "c2"]
