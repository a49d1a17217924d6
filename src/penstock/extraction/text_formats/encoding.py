"""Decodes bytes of unknown encoding.

In this order: a byte order mark, UTF-16 by its zeros, valid UTF-8 (which is hardly ever one by chance), the encoding that the
document declares, Windows-1252 when the result looks like words, the most plausible of a few encodings for a short text, and
charset-normalizer's guess, which needs some sentences to be right.
"""

import codecs
import re
import unicodedata
from itertools import pairwise

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 65_536
_SHORT = 64  # bytes that are not ASCII: with fewer, charset-normalizer takes a German word for Urdu
# Tried on a short text, in this order; the first of equally plausible ones is taken.
_COMMON = ("cp1252", "cp1250", "iso8859-2", "cp1251", "koi8-r", "cp1253")
# Detected before charset-normalizer is asked.
_NOT_GUESSED = ["utf_7", "utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be"]
# Codecs of Python that are not encodings of text; some of them unpack bombs.
_NO_ENCODINGS = frozenset(
    [
        "base64",
        "bz2",
        "hex",
        "zlib",
        "uu",
        "quopri",
        "rot13",
        "unicode_escape",
        "raw_unicode_escape",
        "idna",
        "punycode",
    ]
)
_LETTER_AMID = re.compile(r"(?<=[A-Za-z])[^\x00-\x7f](?=[a-z])")
_CENTRAL = frozenset("ĄąĆćĘęŁłŃńŚśŹźŻżČčĎďĚěŇňŘřŤťŮůŐőŰűŢţĂăĐđĽľĹĺŔŕ")
_SIGNS = frozenset("’‘“”„–—…€£¥¢§°«»·•№©®™½¼¾±µ×÷²³¿¡ºª\u00a0\u00ad")
_FREQUENT = frozenset("оеаинтсрвлкмдпуыьгзяαοιετσνηυρπκμλςάέήίόύώ")
_WESTERN = frozenset("ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿŒœŠšŽžŸ’‘“”–—…­")


def decode(raw: bytes, declared: str = "") -> str:
    """The text; bytes that cannot be decoded become U+FFFD."""
    encoding, skip = detect(raw, declared)
    return raw[skip:].decode(encoding, "replace")


def detect(raw: bytes, declared: str = "") -> tuple[str, int]:
    """The name of the encoding, and the length of its byte order mark."""
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return encoding, len(mark)
    wide = wide_encoding(raw[:_SAMPLE])
    if wide:
        return wide, 0
    if decodes(raw, "utf-8", whole=True):
        return "utf-8", 0
    codec = _codec(declared)
    if codec and codec not in {"utf-8", "ascii"} and decodes(raw[:_SAMPLE], codec):
        return codec, 0
    if _mostly_utf8(raw):
        return "utf-8", 0
    return _guess(raw), 0


def wide_encoding(sample: bytes) -> str:
    """UTF-16 without a mark: in most languages every other byte is mostly zero."""
    pairs = len(sample) // 2
    if pairs < 4:
        return ""
    low, high = sample[0 : 2 * pairs : 2].count(0), sample[1 : 2 * pairs : 2].count(0)
    if high > 0.4 * pairs and low < 0.02 * pairs:
        return "utf-16-le"
    if low > 0.4 * pairs and high < 0.02 * pairs:
        return "utf-16-be"
    return ""


def decodes(raw: bytes, encoding: str, *, whole: bool = False) -> bool:
    """Whether all of it is valid; a sample, unlike the `whole` text, may end in the middle of a character."""
    try:
        codecs.getincrementaldecoder(encoding)().decode(raw, final=whole)
    except (UnicodeError, LookupError):
        return False
    return True


def _codec(declared: str) -> str:
    """The codec of a declared encoding; a web page's latin-1 means cp1252 in practice."""
    try:
        name = codecs.lookup(declared.strip().strip("\"'")).name if declared.strip() else ""
    except (LookupError, UnicodeError, ValueError):  # ValueError: a NUL in the name
        return ""
    if name in _NO_ENCODINGS:
        return ""
    return "cp1252" if name == "iso8859-1" else name


def _mostly_utf8(raw: bytes) -> bool:
    """UTF-8 with a few broken characters, as after careless cutting and pasting."""
    text = raw[:_SAMPLE].decode("utf-8", "replace")
    broken = text.count("\ufffd")
    whole = sum(1 for character in text if character > "\x7f") - broken
    return whole > 4 * broken


def _guess(raw: bytes) -> str:
    sample = _sample(raw)
    western = sample.decode("cp1252", "replace")
    amid = _LETTER_AMID.findall(western)
    foreign = [character for character in western if character > "\x7f"]
    strange = sum(1 for character in amid if character not in _WESTERN)
    if len(foreign) < 0.2 * len(western) and strange <= 0.1 * len(amid) and len(foreign) >= _SHORT:
        return "cp1252"
    if len(foreign) < _SHORT:
        scores = {name: _plausibility(sample.decode(name)) for name in _COMMON if decodes(sample, name, whole=True)}
        likeliest = max(scores, key=scores.__getitem__, default="")
        if likeliest and scores[likeliest] > 0:
            return likeliest
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_exclusion=_NOT_GUESSED).best()
    return best.encoding if best is not None and decodes(sample, best.encoding) else "cp1252"


def _plausibility(text: str) -> float:
    """A score: how much a short text looks like words of one script. Zero or less means not at all."""
    if re.search(r"[\x80-\x9f]", text):  # control characters
        return 0.0
    score = 0.0
    for word in re.findall(r"\w+|[^\w\s]", text):
        foreign = [character for character in word if character > "\x7f"]
        scripts = {unicodedata.name(character, "?").partition(" ")[0] for character in word if character.isalpha()}
        if set(foreign) <= _SIGNS or len(word) == 1:
            score += sum(0.7 if c in _SIGNS else 0.2 if c.isalpha() else -2.0 for c in foreign)
        elif scripts == {"LATIN"}:
            score += sum(
                1.0 if character in _WESTERN else 0.9 if character in _CENTRAL else -2.0 for character in foreign
            )
            if len(foreign) > 3 and len(foreign) > 0.75 * len(word):  # hardly a plain letter: another script
                score -= 2.0 * len(foreign)
        elif len(scripts) == 1 and scripts <= {"CYRILLIC", "GREEK"}:
            score += sum(1.0 if character.lower() in _FREQUENT else 0.4 for character in foreign)
        else:
            score -= 2.0 * len(foreign)
        # A capital after a small letter: the wrong one of two Cyrillic encodings, or no letters at all.
        score -= 2.0 * sum(before.islower() and after.isupper() for before, after in pairwise(word))
    return score


def _sample(raw: bytes) -> bytes:
    """A sample around the first byte that is not ASCII, which may come late."""
    first = re.search(rb"[\x80-\xff]", raw)
    start = max(0, first.start() - 2_000) if first else 0
    return raw[start : start + 20_000]
