"""How many pages get their true label: 80 packets in six layouts, half of them as text, half as bad scans through our OCR.

The built-in rules were written by the first three layouts, and mended by stranger ones on which earlier versions had
failed; the last three were made after the last change, and run to report. Precision and recall are counted over pages;
the F1 of a set is the mean over the four labels. Each miss is printed.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from benchmarks.cost import clock
from benchmarks.parts.fresh import FRESH
from benchmarks.parts.last import LAST
from benchmarks.parts.packet import Layout, Packet, make_packet
from benchmarks.parts.scan import read_scanned
from benchmarks.parts.seen import SEEN
from benchmarks.parts.strange import STRANGE
from benchmarks.parts.unseen import UNSEEN
from benchmarks.report import Row
from benchmarks.stage import Stage
from penstock.pipelines.parts import PacketPage, classify, load_rules

PACKETS = 80  # over layouts 1 to 6
LABELS = ("cover", "A", "B", "other")
TARGET = 0.9


@dataclass(frozen=True)
class Verdict:
    """What became of one page."""

    packet: Packet
    page: int
    expected: str
    got: str
    confidence: float

    @property
    def missed(self) -> bool:
        return self.expected != self.got


async def measure_seen(stage: Stage) -> list[Row]:
    return await _measure("parts, seen layouts", SEEN)


async def measure_unseen(stage: Stage) -> list[Row]:
    return await _measure("parts, unseen layouts", UNSEEN)


async def measure_strange(stage: Stage) -> list[Row]:
    return await _measure("parts, strange layouts", STRANGE, PACKETS // 4)


async def measure_fresh(stage: Stage) -> list[Row]:
    return await _measure("parts, fresh layouts", FRESH, PACKETS // 4)


async def measure_last(stage: Stage) -> list[Row]:
    return await _measure("parts, last layouts", LAST, PACKETS // 4)


async def _measure(name: str, layouts: Sequence[Layout], count: int = PACKETS // 2) -> list[Row]:
    packets = make_packets(layouts, count)
    began = clock()
    read = await asyncio.to_thread(read_scanned, [packet for packet in packets if packet.scanned])
    reading = clock() - began
    began = clock()
    verdicts = judge(packets, read)
    deciding = clock() - began
    tell_misses(verdicts)
    of = f"{len(packets)} packets, {len(verdicts)} pages, {len(read)} of them scanned"
    rows = [_row(name, "F1, mean over labels", verdicts, LABELS, note=of)]
    rows += [_row(name, f"F1 of {label}", verdicts, (label,)) for label in LABELS]
    for kind, scanned in (("text", False), ("scans", True)):
        some = [verdict for verdict in verdicts if verdict.packet.scanned is scanned]
        rows.append(Row(name, f"F1, {kind} only", "", [macro(some, LABELS)]))
    for layout in layouts:
        some = [verdict for verdict in verdicts if verdict.packet.layout == layout.name]
        rows.append(Row(name, f"F1, layout {layout.name}", "", [macro(some, LABELS)]))
    wrong = [verdict for verdict in verdicts if verdict.missed]
    whole = 1 - len({verdict.packet.name for verdict in wrong}) / len(packets)
    sure = [verdict for verdict in verdicts if verdict.confidence >= TARGET]
    share = f"{len(sure) / len(verdicts):.0%} of the pages"
    return [
        *rows,
        Row(name, "packets without a miss", "", [whole]),
        Row(name, "right where confidence ≥ 0.9", "", [sum(not v.missed for v in sure) / len(sure)], note=share),
        Row(name, "classify a page", "ms", [1000 * deciding / len(verdicts)]),
        Row(name, "OCR a page", "ms", [1000 * reading / max(1, len(read))], note="as many at once as processors"),
    ]


def _row(name: str, what: str, verdicts: Sequence[Verdict], labels: Sequence[str], note: str = "") -> Row:
    row = Row(name, what, "", [macro(verdicts, labels)], note=note)
    return row.judged(f"≥ {TARGET}", lambda value: value >= TARGET)


def make_packets(layouts: Sequence[Layout], packets: int) -> list[Packet]:
    """Round the layouts; every other packet of a layout is scanned."""
    turns = ((layout, number) for number in range(packets) for layout in layouts)
    return [make_packet(layout, number, scanned=number % 2 == 1) for layout, number in islice(turns, packets)]


def judge(packets: Sequence[Packet], read: dict[tuple[str, int], str]) -> list[Verdict]:
    """Classify each packet; `read` has the text of the scanned pages."""
    rules, verdicts = load_rules(None), []
    for packet in packets:
        pages = [
            PacketPage(place + 1, read.get((packet.name, place), sheet.text), sheet.document)
            for place, sheet in enumerate(packet.sheets)
        ]
        got = {page: part for part in classify(pages, rules) for page in range(part.first, part.last + 1)}
        for page, sheet in zip(pages, packet.sheets, strict=True):
            part = got[page.number]
            verdicts.append(Verdict(packet, page.number, sheet.label, part.label, part.confidence))
    return verdicts


def macro(verdicts: Sequence[Verdict], labels: Sequence[str]) -> float:
    """The mean F1 of these labels, over pages."""
    right = Counter(verdict.expected for verdict in verdicts if not verdict.missed)
    expected, got = (Counter(getattr(verdict, side) for verdict in verdicts) for side in ("expected", "got"))
    present = [label for label in labels if expected[label] + got[label]]
    return sum(2 * right[label] / (expected[label] + got[label]) for label in present) / len(present)


def tell_misses(verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        if verdict.missed:
            how = "scan" if verdict.packet.scanned else "text"
            place = f"{verdict.packet.name} ({how}), page {verdict.page}"
            print(f"\n  {place}: {verdict.expected}, got {verdict.got} ({verdict.confidence:.2f})", end="")
