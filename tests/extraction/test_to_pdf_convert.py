"""Documents of all kinds as PDFs: what a reader of PDFs finds in them is what went in."""

import io
import random
from collections.abc import AsyncIterator
from email.message import EmailMessage
from typing import Any

import pikepdf
import pytest
from PIL import Image

from penstock.errors import Corrupt, Encrypted, Suspicious, TooMuch, Unreadable, Unsupported
from penstock.extraction import SandboxPool
from penstock.extraction.office import libreoffice
from penstock.extraction.to_pdf import typeset
from penstock.extraction.to_pdf.images import page_size
from penstock.extraction.to_pdf.typeset import visual
from penstock.settings import Settings
from tests.extraction import sample_files
from tests.extraction.corpus import CORPUS
from tests.extraction.pdf_results import Converted, call, converted
from tests.extraction.sample_pdfs import (
    CATALOG,
    draw_text,
    encode,
    one_page,
    page,
    picture,
    scan_pdf,
    stream,
    text_pdf,
    write_pdf,
)

SCRIPTS = [
    "Größe (12 €) – “done” \\ 100 %",
    "Ελληνικά και ελληνικά",
    "Русский текст, ещё строка",
    "日本語の文章 と English",
    "한국어 텍스트",
    "中文文本,标点。",
    "שלום עולם 123 abc",
    "مرحبا بالعالم (12) نص",
    "abc שלום def",
    "हिन्दी पाठ देवनागरी",
    "ภาษาไทย กำลัง",
    "emoji 😀👍🏽 and 𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "e\u0301 a\u0308 Tiếng Việt",
]


# Text


def test_text_of_any_script_comes_back() -> None:
    result = converted("\n".join(SCRIPTS).encode(), "a.txt")
    assert result.texts == ["\n".join(SCRIPTS)]
    assert result.told == {"media_type": "text/plain", "pages": 1, "gaps": [], "how": "text"}


def test_visual_order_is_what_pdfium_undoes() -> None:
    """Words of two directions, with numbers and signs between them."""
    chance = random.Random(7)
    words = ["abc", "שלום", "مرحبا", "12", "(x)", "עולם,", "A-1", "3.5%", "نص", "مُحَمَّد", "±5"]
    lines = [" ".join(chance.choices(words, k=chance.randint(1, 7))) for _ in range(50)]
    assert converted("\n".join(lines).encode(), "a.txt").texts[0].split("\n") == lines
    assert visual("(abc) 12") == "(abc) 12" and visual("שלום (12)") == "(12) םולש"


def test_more_letters_than_one_font_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typeset, "_CODES", 500)  # instead of 65,000, which would take seconds
    letters = [chr(code) for code in [*range(0x4E00, 0x5000), *range(0xAC00, 0xAE00), *range(0x20000, 0x20200)]]
    lines = ["".join(letters[start : start + 40]) for start in range(0, len(letters), 40)]
    result = converted("\n".join(lines).encode(), "a.txt")
    assert "".join(result.texts).replace("\n", "") == "".join(letters)


def test_lines_are_wrapped_and_pages_are_broken() -> None:
    long = " ".join(f"word{number}" for number in range(1_200))
    result = converted(f"{long}\n{'x' * 200}\fnext page".encode(), "a.txt")
    assert result.told["pages"] == 4 and result.texts[-1] == "next page"
    found = "\n".join(result.texts[:-1]).split("\n")
    assert max(map(len, found)) <= 83
    assert " ".join(found[:-3]) == long
    assert "".join(found[-3:]) == "x" * 200


def test_too_many_pages_of_text_are_refused() -> None:
    with pytest.raises(TooMuch, match=r"limits\.pages"):
        converted(b"x\f" * 20, "a.txt", pages=10)


def test_text_without_text_is_an_empty_page() -> None:
    result = converted(b" \n \n ", "a.txt")
    assert result.told["pages"] == 1 and "white space" in result.gaps[0]


@pytest.mark.parametrize(
    ("raw", "name", "words"),
    [
        (b"# Title\n\nBody.", "a.md", "# Title\n\nBody."),
        (b"name,age\nAda,36\nBob,40", "a.csv", "name | age\nAda | 36\nBob | 40"),
        (b"<html><body><h1>Hi</h1><p>there</p></body></html>", "a.html", "Hi\n\nthere"),
        (b'{"a": "one", "b": ["two"]}', "a.json", "two"),
        (b"<?xml version='1.0'?><a><b>rye</b></a>", "a.xml", "rye"),
    ],
)
def test_other_kinds_of_text(raw: bytes, name: str, words: str) -> None:
    result = converted(raw, name)
    assert result.told["how"] == "text"
    found = "\n".join(line for line in result.texts[0].split("\n"))
    assert words.replace("\n\n", "\n") in found.replace("\n\n", "\n")


def test_a_mail_names_what_was_attached() -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"] = "Offer", "ada@example.org"
    mail.set_content("Please find it attached.")
    for name in ("offer.pdf", "terms.txt"):
        mail.add_attachment(b"x" * 9, maintype="application", subtype="octet-stream", filename=name)
    result = converted(mail.as_bytes(), "a.eml")
    assert "Please find it attached." in result.texts[0] and "Subject: Offer" in result.texts[0]
    assert result.gaps == ["2 attachments are left out: offer.pdf, terms.txt"]


@pytest.mark.parametrize("raw", [sample_files.zipped({"a.txt": "x"}), b"\x1f\x8b\x08" + bytes(30)])
def test_archives_are_no_part_of_a_packet(raw: bytes) -> None:
    with pytest.raises(Unsupported, match="send its files one by one"):
        converted(raw, "a.docx")


def test_office_without_libreoffice_is_set_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert libreoffice.find_library() is None
    result = converted(sample_files.docx(sample_files.paragraph("Forty sacks of rye.")), "a.docx")
    assert result.texts == ["Forty sacks of rye."]
    assert result.told["how"] == "text" and result.gaps == ["set as plain text: LibreOffice is not installed"]
    sheets = converted(
        sample_files.xlsx(("one", [["a", "b"], ["1", "2"]]), ("two", [["c", "d"], ["3", "4"]])), "a.xlsx"
    )
    assert sheets.told["pages"] == 2 and "3 | 4" in sheets.texts[1]


# PDF


def test_a_good_pdf_stays_as_it_is() -> None:
    raw = text_pdf([(50, 700, 12, "first")], [(50, 700, 12, "second")])
    result = converted(raw, "a.pdf")
    assert result.pdf == raw and result.told == {"media_type": "application/pdf", "pages": 2, "gaps": [], "how": "pdf"}


def test_a_damaged_pdf_is_repaired() -> None:
    raw = text_pdf([(50, 700, 12, "first")], [(50, 700, 12, "second")])
    result = converted(raw.replace(b"startxref\n", b"startxref\n9"), "a.pdf")
    assert result.texts == ["first", "second"] and "repaired" in result.gaps[0]
    cut = converted(raw[: raw.rindex(b"xref\n0 ")], "a.pdf")  # its trailer is gone, too
    assert cut.texts[0] == "first" and "repaired" in cut.gaps[0]


def test_an_encrypted_pdf() -> None:
    written = io.BytesIO()
    with pikepdf.open(io.BytesIO(text_pdf([(50, 700, 12, "x")]))) as document:
        document.save(written, encryption=pikepdf.Encryption(user="secret", owner="more"))
    with pytest.raises(Encrypted, match=r"^encrypted: "):
        converted(written.getvalue())


@pytest.mark.parametrize(
    "pages",
    [
        b"<</Type/Pages/Kids[]/Count 0>>",
        b"<</Type/Pages/Kids[]/Count 5>>",
        b"<</Type/Pages/Kids[2 0 R]/Count 1>>",
        b"<</Type/Pages/Kids[3 0 R 3 0 R]/Count 2>>",
        b"(nothing)",
    ],
    ids=["none", "lie", "itself", "circle", "no tree"],
)
def test_a_pdf_without_pages_or_in_a_circle(pages: bytes) -> None:
    with pytest.raises(Corrupt):
        converted(write_pdf([CATALOG, pages, b"<</Type/Pages/Kids[2 0 R]/Count 1/Parent 2 0 R>>"]))


def test_a_pdf_of_which_only_the_beginning_is_there() -> None:
    with pytest.raises(Corrupt):
        converted(text_pdf([(50, 700, 12, "x")])[:60])


def test_a_pdf_of_10_000_pages() -> None:
    kids = b" ".join(b"%d 0 R" % number for number in range(4, 10_004))
    objects = [CATALOG, b"<</Type/Pages/Kids[%s]/Count 10000>>" % kids, stream(draw_text([])), *[page(3)] * 10_000]
    with pytest.raises(TooMuch, match=r"10,000 pages; limits\.pages allows 5,000"):
        converted(write_pdf(objects))


def test_a_bomb_is_refused() -> None:
    form = stream(b"/X Do", b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 5 0 R>>>>")
    with pytest.raises(Suspicious):
        converted(one_page(b"/Resources<</XObject<</X 5 0 R>>>>", b"/X Do", form))


def test_files_inside_of_a_pdf_are_named() -> None:
    written = io.BytesIO()
    with pikepdf.open(io.BytesIO(text_pdf([(50, 700, 12, "x")]))) as document:
        document.attachments["table.csv"] = b"a,b"
        document.save(written)
    assert converted(written.getvalue()).gaps == ["1 attached file is left out: table.csv"]


def test_a_program_with_the_name_of_a_pdf() -> None:
    with pytest.raises(Unsupported, match="a Windows program"):
        converted(b"MZ" + bytes(500), "invoice.pdf")


# Images


def corners(image: Image.Image) -> list[tuple[int, ...]]:
    """Rounded colours near the corners: top left, top right, bottom left, bottom right."""
    points = [(x, y) for y in (0.1, 0.9) for x in (0.1, 0.9)]
    found = [image.getpixel((int(x * image.width), int(y * image.height))) for x, y in points]
    return [tuple(round(value / 255) for value in colour) for colour in found if isinstance(colour, tuple)]


def quarters(mode: str = "RGB") -> Image.Image:
    """Red, green, blue and black quarters on 300 × 200 pixels."""
    image = Image.new("RGB", (300, 200), "black")
    for colour, place in (("#ff0000", (0, 0)), ("#00ff00", (150, 0)), ("#0000ff", (0, 100))):
        image.paste(colour, (*place, place[0] + 150, place[1] + 100))
    return image.convert(mode)


RED, GREEN, BLUE, BLACK = (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)


@pytest.mark.parametrize(
    ("kind", "mode", "options"),
    [
        ("PNG", "RGB", {}),
        ("PNG", "RGBA", {}),
        ("PNG", "P", {}),
        ("BMP", "RGB", {}),
        ("GIF", "P", {}),
        ("WEBP", "RGB", {"lossless": True}),
        ("TIFF", "RGB", {"compression": "tiff_lzw"}),
        ("TIFF", "CMYK", {}),
        ("JPEG", "RGB", {}),
        ("JPEG", "CMYK", {}),
    ],
)
def test_images_become_pages(kind: str, mode: str, options: dict[str, Any]) -> None:
    result = converted(encode(quarters(mode), kind, **options))
    assert result.told["how"] == "image" and result.told["pages"] == 1
    drawn = result.image()
    assert corners(drawn) == [RED, GREEN, BLUE, BLACK]
    assert abs(drawn.width / drawn.height - 1.5) < 0.05


def test_a_jpeg_goes_in_byte_by_byte() -> None:
    raw = encode(quarters(), "JPEG", dpi=(150, 150))
    result = converted(raw)
    assert raw in result.pdf
    assert result.image().size == (144, 96)  # two inches


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_an_image_is_turned_as_the_camera_was(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    result = converted(encode(quarters(), kind, exif=exif))
    expected = {
        1: [RED, GREEN, BLUE, BLACK],
        2: [GREEN, RED, BLACK, BLUE],
        3: [BLACK, BLUE, GREEN, RED],
        4: [BLUE, BLACK, RED, GREEN],
        5: [RED, BLUE, GREEN, BLACK],
        6: [BLUE, RED, BLACK, GREEN],
        7: [BLACK, GREEN, BLUE, RED],
        8: [GREEN, BLACK, RED, BLUE],
    }[orientation]
    assert corners(result.image()) == expected


def test_frames_of_a_tiff_are_pages_and_stay_bilevel() -> None:
    frames = [picture([(100, 100, 60, f"Page {number}")], (1654, 2339)).convert("1") for number in range(1, 13)]
    raw = encode(frames[0], "TIFF", save_all=True, append_images=frames[1:], compression="group4", dpi=(200, 200))
    result = converted(raw)
    assert result.told["pages"] == 12 and len(result.pdf) < 12 * 5_000
    drawn = result.image(3)
    assert drawn.size == (596, 843)  # A4
    assert drawn.getpixel((5, 5)) == (255, 255, 255)
    assert drawn.convert("L").histogram()[0:128] != [0] * 128
    negative = converted(encode(Image.new("1", (100, 100), 0), "TIFF", tiffinfo={262: 0}))
    assert negative.image().getpixel((20, 20)) == (0, 0, 0)


def test_a_damaged_frame_is_an_empty_page_with_a_gap() -> None:
    frames = [picture([(100, 100, 60, f"Page {number}")], (800, 600)) for number in range(1, 4)]
    raw = bytearray(
        encode(frames[0], "TIFF", save_all=True, append_images=frames[1:], compression="tiff_adobe_deflate")
    )
    with Image.open(io.BytesIO(raw)) as image:
        image.seek(1)
        place = image.tag_v2[273][0]  # type: ignore[attr-defined]
    raw[place : place + 40] = bytes(40)
    result = converted(bytes(raw))
    assert result.told["pages"] == 3
    assert [gap["page"] for gap in result.told["gaps"]] == [2]


def test_an_animation_is_its_first_frame() -> None:
    raw = encode(quarters("P"), "GIF", save_all=True, append_images=[Image.new("P", (300, 200))])
    result = converted(raw)
    assert result.told["pages"] == 1 and "animation" in result.gaps[0]


def test_a_photograph_does_not_explode() -> None:
    noise = Image.effect_noise((1200, 900), 80).convert("RGB")
    assert len(converted(encode(noise, "PNG")).pdf) < 1_200 * 900


def test_images_that_cannot_be() -> None:
    with pytest.raises(TooMuch, match=r"limits\.pixels"):
        converted(encode(quarters(), "PNG"), pixels=1_000)
    with pytest.raises(Corrupt):
        converted(encode(quarters(), "PNG")[:200])


def test_pages_are_neither_huge_nor_invisible() -> None:
    assert page_size(595, 842) == (595, 842)
    assert page_size(4000, 3000) == pytest.approx((1122.67, 842), abs=0.1)
    assert page_size(1, 1) == (72, 72)
    assert page_size(1, 100_000) == pytest.approx((3, 1191))


# In a sandbox


@pytest.fixture
async def sandboxes(settings: Settings) -> AsyncIterator[SandboxPool]:
    async with SandboxPool(settings) as sandboxes:
        yield sandboxes


async def test_convert_and_draw_in_a_sandbox(sandboxes: SandboxPool) -> None:
    told, header, pdf = await call(sandboxes, "convert", "\n".join(SCRIPTS).encode(), name="a.txt")
    assert header == {"name": "converted.pdf"}
    assert Converted(told, pdf).texts == ["\n".join(SCRIPTS)]
    told, header, raw = await call(sandboxes, "draw", pdf, media_type="application/pdf", page=1, width=400)
    assert header == {"name": "page.png", "media_type": "image/png"}
    with Image.open(io.BytesIO(raw)) as image:
        assert image.size == (400, 566) == (told["width"], told["height"])
    noise = encode(Image.effect_noise((3000, 2000), 90).convert("RGB"), "JPEG")
    told, header, raw = await call(sandboxes, "draw", noise, media_type="image/jpeg", page=1, width=99_999)
    assert header == {"name": "page.jpg", "media_type": "image/jpeg"} and told["width"] == 2_000
    scans = scan_pdf(picture([(100, 100, 60, "scan")]))
    for number in (0, 2):
        with pytest.raises(Corrupt, match="cannot be drawn"):
            await call(sandboxes, "draw", scans, media_type="application/pdf", page=number, width=400)
    with pytest.raises(Unsupported):
        await call(sandboxes, "draw", b"text", media_type="text/plain", page=1, width=400)


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"{CORPUS} is not there")
@pytest.mark.parametrize("folder", ["good", "hostile"])
async def test_real_documents_become_pdfs_or_say_why_not(
    sandboxes: SandboxPool, settings: Settings, folder: str
) -> None:
    """The deadline of a sandbox is the only one: what takes longer is a `ResourceLimit`, and fails the test."""
    refused = {}
    for path in sorted((CORPUS / folder).iterdir()):
        try:
            told, _, pdf = await call(sandboxes, "convert", path.read_bytes(), name=path.name)
        except Unreadable as error:
            refused[path.name] = str(error)
            continue
        with pikepdf.open(io.BytesIO(pdf)) as document:
            assert len(document.pages) == told["pages"] > 0, path.name
    assert all(10 < len(sentence) < 300 for sentence in refused.values())
    assert not refused if folder == "good" else len(refused) > 5
