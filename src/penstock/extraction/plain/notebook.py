"""JSON as readable lines, and notebooks cell by cell.

Numbers stay the text that they are in the file: no rounding, and no quadratic conversion of a million digits.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from penstock.errors import Suspicious
from penstock.extraction.draft import Allowance, Draft, clean
from penstock.extraction.plain.encoding import decode
from penstock.extraction.plain.text import structure
from penstock.extraction.plain.textkind import JSON_LINES, NOTEBOOK
from penstock.extraction.rawbytes import whole
from penstock.extraction.reading import Gap, Reading


def read_json(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> Reading:
    text = decode(whole(file, arguments))
    draft, gaps, title = Draft(Allowance(arguments)), [], ""
    try:
        value = [_load(line) for line in text.splitlines() if line.strip()] if media_type == JSON_LINES else _load(text)
    except ValueError:
        draft.paragraph(text)
        gaps.append(Gap(None, "it is not valid JSON; it was read as plain text"))
    else:
        if media_type == NOTEBOOK and isinstance(value, dict) and isinstance(value.get("cells"), list):
            title = _write_cells(value["cells"], draft)
        else:
            _write_lines(value, draft)
    page = draft.page(1)
    if not page.text:
        return Reading(media_type, gaps=[Gap(None, "no text in it: it has no values"), *gaps])
    return Reading(media_type, [page], title=title, gaps=gaps)


def _load(text: str) -> Any:
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except RecursionError as error:
        raise Suspicious("It nests more lists into each other than any program writes.") from error


def _write_lines(value: Any, draft: Draft) -> None:
    """`key: value` lines; a list's items are set apart by blank lines when they are more than a value."""
    for key, leaf, apart in _leaves(value):
        line = f"{key}: {leaf}" if key and leaf else key + (":" if key else "") + leaf
        if apart:
            draft.paragraph(line)
        else:
            draft.line(line)


def _leaves(value: Any) -> Iterator[tuple[str, str, bool]]:
    waiting: list[tuple[str, Any, bool]] = [("", value, False)]
    while waiting:
        key, item, apart = waiting.pop()
        if isinstance(item, dict):
            if key:
                yield key, "", apart
            inner = [
                (clean(str(name)), child, apart and not key and number == 0)
                for number, (name, child) in enumerate(item.items())
            ]
            waiting += reversed(inner)
        elif isinstance(item, list):
            if all(not isinstance(child, dict | list) for child in item):
                yield key, ", ".join(filter(None, map(_words, item))), apart
            else:
                if key:
                    yield key, "", apart
                waiting += [("", child, True) for child in reversed(item)]
        else:
            yield key, _words(item), apart


def _words(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _write_cells(cells: list[Any], draft: Draft) -> str:
    """Cells in order, with what code has printed; gives the first heading."""
    title = ""
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        source = _joined(cell.get("source"))
        if cell.get("cell_type") == "markdown":
            title = _write_markdown(source, draft, title)
        else:
            draft.paragraph(source)
        for output in cell.get("outputs") or []:
            draft.paragraph(_output(output) if isinstance(output, dict) else "")
    return title


def _write_markdown(source: str, draft: Draft, title: str) -> str:
    source = clean(source)
    at = 0
    for heading in structure(source)[0]:
        draft.paragraph(source[at : heading.start])
        draft.heading(heading.title, heading.level)
        title = title or heading.title
        at = source.find("\n", heading.start)
        at = len(source) if at < 0 else at
    draft.paragraph(source[at:])
    return title


def _output(output: dict[str, Any]) -> str:
    shown = output.get("data")
    text = shown.get("text/plain") if isinstance(shown, dict) else None
    return _joined(output.get("text") or text or output.get("evalue"))


def _joined(source: Any) -> str:
    return "".join(map(str, source)) if isinstance(source, list) else source if isinstance(source, str) else ""
