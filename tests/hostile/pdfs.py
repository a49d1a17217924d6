"""PDF files: bombs, loops, nests, claims and locks."""

import hashlib
import io
import zlib
from collections.abc import Iterator

from penstock.errors import Encrypted, TooMuch, Unreadable
from tests.hostile.file import File, either, failed, ready
from tests.hostile.pdf_pieces import FONT, PAGE, TEXT, document, flate, packed, pdf, places, stream, xref_stream
from tests.hostile.pieces import zlib_bomb

FLATE = b"/Filter/FlateDecode"
CATALOG, ONE_PAGE = b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
FORM = b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources<</XObject<<%s>>/Font<</F1 5 0 R>>>>"


def files() -> Iterator[File]:
    yield from page_trees()
    yield from loops()
    yield from bombs()
    yield from nests()
    yield from claims()
    yield from locks()


def page_trees() -> Iterator[File]:
    tree = b"<</Type/Pages/Count %d/Kids[%s]>>"

    def pages(kids: bytes, count: int, **more: bytes) -> bytes:
        return document(**{"o2": tree % (count, kids), **more})

    def doubling() -> bytes:  # eight levels of the same ten children: a hundred million pages
        levels = {n: tree % (10 ** (18 - n), b"%d 0 R " % (n + 1) * 10) for n in range(10, 18)}
        return pdf({1: b"<</Type/Catalog/Pages 10 0 R>>", **levels, 18: PAGE % (b"", b""), 4: stream(TEXT), 5: FONT})

    def many() -> bytes:
        kids = b" ".join(b"%d 0 R" % n for n in range(4, 100_004))
        return packed({1: CATALOG, 2: tree % (100_000, kids)}, dict.fromkeys(range(4, 100_004), b"<</Type/Page>>"))

    yield either("pdf-page-tree-is-its-own-child.pdf", lambda: pages(b"2 0 R 3 0 R", 2))
    yield either("pdf-page-tree-two-node-loop.pdf", lambda: pages(b"6 0 R 3 0 R", 3, o6=tree % (2, b"2 0 R")))
    yield either("pdf-page-tree-claims-two-billion.pdf", lambda: pages(b"3 0 R", 2**31 - 1))
    yield either("pdf-page-tree-claims-minus-five.pdf", lambda: pages(b"3 0 R", -5))
    yield failed("pdf-100000-pages.pdf", many, TooMuch, says="5.?000")
    yield failed("pdf-one-page-100000-times.pdf", lambda: pages(b"3 0 R " * 100_000, 100_000), Unreadable)
    yield failed("pdf-page-tree-doubling.pdf", doubling)
    yield either("pdf-page-tree-without-pages.pdf", lambda: pages(b"", 0))
    yield either("pdf-page-is-a-number.pdf", lambda: pages(b"3 0 R 7", 2))


def loops() -> Iterator[File]:
    def drawn(do: bytes, **objects: bytes) -> bytes:
        return document(resources=b"/XObject<</X 6 0 R/Y 7 0 R>>", text=TEXT + b"\n" + do, **objects)

    def laughing() -> bytes:  # ten forms, each of which draws the next one ten times
        forms = {
            f"o{n}": stream(b"/X Do " * 10 if n < 17 else TEXT, FORM % (b"/X %d 0 R" % (n + 1) if n < 17 else b""))
            for n in range(6, 18)
        }
        return drawn(b"/X Do", **forms)

    def glyphs() -> bytes:  # a glyph whose drawing shows the same glyph
        font = b"<</Type/Font/Subtype/Type3/FontBBox[0 0 9 9]/FontMatrix[.1 0 0 .1 0 0]/CharProcs<</a 6 0 R>>"
        font += b"/Encoding<</Differences[97/a]>>/FirstChar 97/LastChar 97/Widths[9]/Resources<</Font<</F1 5 0 R>>>>>>"
        return document(text=b"BT /F1 9 Tf 9 9 Td (aaaa) Tj ET", o5=font, o6=stream(b"9 0 d0 BT /F1 9 Tf (aaaa) Tj ET"))

    own = FORM % b"/X 6 0 R/Y 7 0 R"
    yield failed("pdf-form-draws-itself.pdf", lambda: drawn(b"/X Do", o6=stream(b"/X Do /X Do", own)))
    yield failed(
        "pdf-forms-draw-each-other.pdf",
        lambda: drawn(b"/X Do", o6=stream(b"/Y Do", own), o7=stream(b"/X Do /X Do", own)),
    )
    yield failed("pdf-forms-laughing.pdf", laughing)
    yield either("pdf-glyph-shows-itself.pdf", glyphs)
    pattern = b"/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 9 9]/XStep .001/YStep .001"
    painted = pattern + b"/Resources<</Pattern<</P 6 0 R>>>>"
    fill = b"/Pattern cs /P scn 0 0 600 700 re f"
    yield either(
        "pdf-pattern-paints-itself.pdf",
        lambda: document(resources=b"/Pattern<</P 6 0 R>>", text=TEXT + fill, o6=stream(fill, painted)),
    )
    outlines = b"<</Title(Again)/Parent 6 0 R/First 7 0 R/Last 7 0 R/Next 7 0 R/Prev 7 0 R/Dest[3 0 R/Fit]>>"
    root = b"<</Type/Outlines/First 7 0 R/Last 7 0 R/Count 9>>"
    yield ready("pdf-outline-loop.pdf", lambda: document(catalog=b"/Outlines 6 0 R", o6=root, o7=outlines))
    names = b"<</Kids[6 0 R 6 0 R]/Limits[(a)(z)]>>"
    yield ready(
        "pdf-name-tree-loop.pdf", lambda: document(catalog=b"/Names<</Dests 6 0 R/EmbeddedFiles 6 0 R>>", o6=names)
    )
    yield either(
        "pdf-length-is-the-stream-itself.pdf", lambda: document(o4=b"<</Length 4 0 R>>stream\n" + TEXT + b"\nendstream")
    )
    yield either("pdf-object-is-itself.pdf", lambda: document(page=b"/Annots 6 0 R", o6=b"6 0 R"))
    loose = document()
    end = loose.rindex(b"xref\n0")
    yield either("pdf-xref-prev-loop.pdf", lambda: loose.replace(b"trailer\n<<", b"trailer\n<</Prev %d" % end))
    yield either("pdf-xref-prev-to-nowhere.pdf", lambda: loose.replace(b"trailer\n<<", b"trailer\n<</Prev 99999999"))
    field = b"<</FT/Tx/T(a)/V(Value)/Kids[6 0 R]/Parent 6 0 R>>"
    yield ready(
        "pdf-form-field-loop.pdf",
        lambda: document(catalog=b"/AcroForm<</Fields[6 0 R]>>", page=b"/Annots[6 0 R]", o6=field),
    )


def bombs() -> Iterator[File]:
    def object_stream() -> bytes:
        body = {1: CATALOG, 2: ONE_PAGE, 3: PAGE % (b"", b""), 4: stream(TEXT), 5: FONT}
        body[6] = stream(zlib_bomb(600), FLATE + b"/Type/ObjStm/N 1000000/First 8000000")
        return xref_stream(body, b"/Size 8/W[1 4 2]", places(body))

    two = b"/Filter[/FlateDecode/FlateDecode]"
    yield failed("pdf-content-swells-to-a-gigabyte.pdf", lambda: document(o4=stream(zlib_bomb(1200), FLATE)))
    yield failed("pdf-content-deflated-twice.pdf", lambda: document(o4=stream(zlib.compress(zlib_bomb(2000)), two)))
    yield either("pdf-object-stream-swells.pdf", object_stream)
    yield either(
        "pdf-filter-chain.pdf", lambda: document(o4=stream(TEXT, b"/Filter[" + b"/ASCIIHexDecode" * 20_000 + b"]"))
    )
    yield either("pdf-run-length-bomb.pdf", lambda: document(o4=stream(b"\x81 " * 200_000, b"/Filter/RunLengthDecode")))
    yield either(
        "pdf-content-shown-50000-times.pdf",
        lambda: document(o3=PAGE.replace(b"4 0 R", b"[" + b"4 0 R " * 50_000 + b"]") % (b"", b"")),
    )
    yield failed(
        "pdf-two-million-operators.pdf", lambda: document(o4=flate(b"BT /F1 9 Tf " + b"(a) Tj " * 2_000_000 + b"ET"))
    )
    font = b"<</Type/Font/Subtype/Type0/BaseFont/A/Encoding/Identity-H/DescendantFonts[6 0 R]/ToUnicode 7 0 R>>"
    kid = b"<</Type/Font/Subtype/CIDFontType2/BaseFont/A/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>"
    cmap = b"/CIDInit begincmap 1 beginbfrange\n" + b"<0000> <FFFFFFFF> <0041>\n" * 20_000 + b"endbfrange endcmap"
    yield either("pdf-character-map-bomb.pdf", lambda: document(o5=font, o6=kid, o7=flate(cmap)))
    yield either("pdf-font-descends-from-itself.pdf", lambda: document(o5=font.replace(b"6 0 R", b"5 0 R")))
    embedded = b"<</Type/Filespec/F(bomb.txt)/EF<</F 7 0 R>>>>"
    names = b"/Names<</EmbeddedFiles<</Names[(bomb.txt)6 0 R]>>>>"
    yield ready(
        "pdf-attachment-swells.pdf",
        lambda: document(catalog=names, o6=embedded, o7=stream(zlib_bomb(300), FLATE + b"/Type/EmbeddedFile")),
    )


def nests() -> Iterator[File]:
    yield either("pdf-deep-arrays.pdf", lambda: document(o6=b"[" * 300_000 + b"]" * 300_000, catalog=b"/X 6 0 R"))
    yield either(
        "pdf-deep-dictionaries.pdf",
        lambda: document(o6=b"<</A" * 60_000 + b" 1 " + b">>" * 60_000, catalog=b"/X 6 0 R"),
    )
    yield either("pdf-deep-graphics-states.pdf", lambda: document(o4=flate(b"q 1 0 0 1 0 0 cm " * 500_000 + TEXT)))
    yield failed("pdf-deep-marked-content.pdf", lambda: document(o4=flate(b"/P <</M 1>> BDC " * 200_000 + TEXT)))
    yield either("pdf-objects-without-an-end.pdf", lambda: b"%PDF-1.4\n" + b"1 0 obj <</A " * 40_000)
    yield either("pdf-unclosed-strings.pdf", lambda: document(text=b"BT /F1 9 Tf " + b"(" * 200_000))
    functions = b"<</FunctionType 3/Domain[0 1]/Functions[6 0 R 6 0 R]/Bounds[.5]/Encode[0 1 0 1]>>"
    shading = b"/Shading<</S<</ShadingType 2/ColorSpace/DeviceRGB/Coords[0 0 9 9]/Function 6 0 R>>>>"
    yield either(
        "pdf-function-calls-itself.pdf", lambda: document(resources=shading, text=TEXT + b" /S sh", o6=functions)
    )

    def updates() -> bytes:  # a file that was saved 5,000 times
        whole = document()
        at = whole.rindex(b"xref\n0")
        for _ in range(5_000):
            after = len(whole)
            whole += b"xref\n0 0\ntrailer\n<</Size 6/Root 1 0 R/Prev %d>>\nstartxref\n%d\n%%%%EOF\n" % (at, after)
            at = after
        return whole

    yield either("pdf-saved-5000-times.pdf", updates)


def claims() -> Iterator[File]:
    image = b"/Type/XObject/Subtype/Image/ColorSpace/DeviceGray/BitsPerComponent %d/Width %d/Height %d"

    def scan(body: bytes) -> bytes:
        return document(resources=b"/XObject<</X 6 0 R>>", text=b"612 0 0 792 0 0 cm /X Do", o6=body)

    fax = b"/Filter/CCITTFaxDecode/DecodeParms<</K -1/Columns 65000/Rows 65000>>"
    predictor = b"/DecodeParms<</Predictor 15/Columns 2147483647/Colors 32/BitsPerComponent 16>>"
    profile = b"/ColorSpace[/ICCBased 7 0 R]"
    yield either(
        "pdf-image-60000-by-60000.pdf",
        lambda: scan(stream(zlib_bomb(1100, b"\xff"), FLATE + image % (8, 60_000, 60_000))),
    )
    yield either("pdf-image-claims-and-has-nothing.pdf", lambda: scan(stream(b"", image % (16, 2**31 - 1, 2**31 - 1))))
    yield either("pdf-fax-of-65000-lines.pdf", lambda: scan(stream(b"\xff" * 9_000, fax + image % (1, 65_000, 65_000))))
    yield either(
        "pdf-jbig2-garbage.pdf", lambda: scan(stream(noise(3_000), b"/Filter/JBIG2Decode" + image % (1, 9_000, 9_000)))
    )
    yield either(
        "pdf-jpeg2000-garbage.pdf", lambda: scan(stream(noise(3_000), b"/Filter/JPXDecode" + image % (8, 9_000, 9_000)))
    )
    yield either("pdf-predictor-columns.pdf", lambda: document(o4=flate(TEXT, predictor)))
    yield either("pdf-colour-profile-bomb.pdf", lambda: document(
        resources=b"/XObject<</X 6 0 R>>", text=b"600 0 0 700 0 0 cm /X Do", o7=stream(zlib_bomb(300), FLATE + b"/N 3"),
        o6=flate(b"\x80" * 30_000, (image % (8, 100, 100)).replace(b"/ColorSpace/DeviceGray", profile)),
    ))  # fmt: skip
    yield ready(
        "pdf-page-as-large-as-a-country.pdf", lambda: document(page=b"/MediaBox[0 0 14000000 14000000]/UserUnit 75000")
    )
    yield either("pdf-page-without-area.pdf", lambda: document(page=b"/MediaBox[0 0 0 0]/CropBox[9 9 -9 -9]/Rotate 45"))
    yield either("pdf-length-is-negative.pdf", lambda: document(o4=b"<</Length -1>>stream\n" + TEXT + b"\nendstream"))
    yield either(
        "pdf-length-is-huge.pdf", lambda: document(o4=b"<</Length 9999999999>>stream\n" + TEXT + b"\nendstream")
    )
    yield failed("pdf-only-a-header.pdf", lambda: b"%PDF-1.7\n", Unreadable)
    yield failed("pdf-header-and-zeros.pdf", lambda: b"%PDF-1.7\n" + bytes(100_000), Unreadable)
    table = b"/Size 2147483647/W[8 8 8]/Index[0 2147483647]"
    yield either(
        "pdf-table-of-two-billion-objects.pdf", lambda: xref_stream({1: CATALOG, 2: ONE_PAGE}, table, bytes(24))
    )
    act = b"/OpenAction<</S/Launch/F(/bin/sh)>>/AA<</WC<</S/JavaScript/JS(app.alert\\(1\\))>>>>"
    yield ready("pdf-launches-a-program.pdf", lambda: document(catalog=act))
    yield ready("pdf-text-above-the-sky.pdf", lambda: document(text=TEXT.replace(b"72 700", b"1e38 -1e38") + TEXT))


def locks() -> Iterator[File]:
    def locked(user: str) -> bytes:
        import pikepdf

        made = io.BytesIO()
        with pikepdf.open(io.BytesIO(document())) as file:
            rules = pikepdf.Encryption(owner="the owner's", user=user, R=3, aes=False, metadata=False)
            file.save(made, encryption=rules, static_id=True)
        return made.getvalue()

    handler = b"/Root 1 0 R/ID[<00><00>]/Encrypt<</Filter/%s/V %d/R %d/Length 256/P -1/O<%s>/U<%s>%s>>"
    aes = b"/OE<%s>/UE<%s>/Perms<%s>/StmF/StdCF/StrF/StdCF/CF<</StdCF<</CFM/AESV3/AuthEvent/DocOpen/Length 32>>>>"
    aes %= (b"33" * 32, b"44" * 32, b"55" * 16)
    body = {1: CATALOG, 2: ONE_PAGE, 3: PAGE % (b"", b""), 4: stream(TEXT), 5: FONT}
    yield failed("pdf-encrypted.pdf", lambda: locked("secret"), Encrypted, says="password")
    yield failed(
        "pdf-encrypted-aes-256.pdf",
        lambda: pdf(body, handler % (b"Standard", 5, 6, b"11" * 48, b"22" * 48, aes)),
        Encrypted,
        says="password",
    )
    yield failed(
        "pdf-encrypted-by-a-stranger.pdf",
        lambda: pdf(body, handler % (b"Acme.Vault", 4, 4, b"11" * 32, b"22" * 32, b"")),
        Unreadable,
    )
    yield ready("pdf-encrypted-with-an-empty-password.pdf", lambda: locked(""))
    yield either("pdf-encrypted-nonsense.pdf", lambda: pdf(body, handler % (b"Standard", 99, -7, b"", b"", b"")))


def noise(size: int) -> bytes:
    """Bytes without sense, always the same."""
    return b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(size // 32 + 1))[:size]
