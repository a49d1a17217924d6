"""Tables as text: CSV and TSV. Each row becomes a line `a | b | c`, and the first one is repeated in each chunk."""

import csv
import io
from collections.abc import Mapping
from typing import Any, BinaryIO

from penstock.extraction.draft import Allowance, Draft, clean
from penstock.extraction.plain.encoding import decode
from penstock.extraction.plain.textkind import TSV
from penstock.extraction.rawbytes import whole
from penstock.extraction.reading import Gap, Reading

_SEPARATORS = ",;\t|"


def read_separated(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> Reading:
    text = clean(decode(whole(file, arguments)))
    draft, gaps = Draft(Allowance(arguments)), []
    csv.field_size_limit(2**31 - 1)
    separator = "\t" if media_type == TSV and "\t" in text else likely_separator(text)
    try:
        draft.table(csv.reader(io.StringIO(text), delimiter=separator))
    except csv.Error:
        draft = Draft(Allowance(arguments))
        draft.paragraph(text)
        gaps.append(Gap(None, "its rows and columns could not be told apart; it was read as plain text"))
    page = draft.page(1)
    if not page.text:
        return Reading(media_type, gaps=[Gap(None, "no text in it: all cells are empty")])
    return Reading(media_type, [page], gaps=gaps)


def likely_separator(text: str) -> str:
    """The separator that most of the first lines have equally often, outside of quotes."""
    lines = [line for line in text[:20_000].split("\n")[:50] if line.strip()]
    scores = {separator: _evenness([_count(line, separator) for line in lines]) for separator in _SEPARATORS}
    best = max(scores, key=lambda separator: scores[separator])
    return best if scores[best] else ","


def _count(line: str, separator: str) -> int:
    return sum(part.count(separator) for part in line.split('"')[::2])


def _evenness(counts: list[int]) -> float:
    present = [count for count in counts if count]
    if not present:
        return 0
    usual = max(set(present), key=present.count)
    return present.count(usual) / len(counts) * min(usual, 5)
