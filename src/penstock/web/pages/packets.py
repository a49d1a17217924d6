"""`/packets`: documents that are merged into one PDF, with a strip of their pages that is coloured by part."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup

from penstock.documents import ShownPart
from penstock.web.api import packets
from penstock.web.dependencies import PacketId, Reads
from penstock.web.pages.render import choose, show

routes = APIRouter(prefix="/packets", include_in_schema=False)

PAGE = 30
TONES = 6  # colours of parts; the last one is for what is none
LABELS = {"cover": "Cover", "other": "Other"}


@routes.get("", response_class=Response)
async def list_packets(
    caller: Reads,
    request: Request,
    collection: Annotated[str, Query(max_length=1024)] = "",
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
) -> Response:
    """The packets."""
    collections = await caller.collections()
    choose(collections, collection)
    found = await packets.list_all(caller, collection=collection or None, after=after, limit=PAGE)
    return show(
        request,
        caller,
        "packets.html",
        found=found,
        collections=collections,
        filters={"collection": collection},
        strips={each.id: strip(each) for each in found.items},
    )


@routes.get("/{id}", response_class=Response)
async def show_packet(caller: Reads, request: Request, id: PacketId) -> Response:  # noqa: A002
    """One packet: its pages by part, its documents with their pages, skipped pages."""
    packet = await packets.show_packet(caller, id)
    why = await packets.explain_packet(caller, id)
    tones = tones_of(packet.parts)
    return show(
        request,
        caller,
        "packet.html",
        packet=packet,
        why=why,
        strip=strip(packet, links=True),
        tones=tones,
        label=label_of,
    )


def label_of(label: str) -> str:
    return LABELS.get(label, f"Part {label}" if len(label) <= 2 else label)


def tones_of(parts: Sequence[ShownPart]) -> Mapping[str, str]:
    """A colour for each label, in the order in which they come."""
    labels = list(dict.fromkeys(part.label for part in parts if part.label != "other"))
    return {label: f"p{min(turn, TONES - 2)}" for turn, label in enumerate(labels)} | {"other": f"p{TONES - 1}"}


def strip(packet: packets.PacketDetails, *, links: bool = False) -> Markup:
    """The pages from left to right: a part is a stretch of one colour, a skipped page is a mark in it."""
    total = packet.pages or max((part.last_page for part in packet.parts), default=0)
    if not total:
        return Markup("")
    tones, drawn = tones_of(packet.parts), []
    for part in packet.parts:
        wide = part.last_page - part.first_page + 1
        words = f"{label_of(part.label)}: pages {part.first_page} to {part.last_page}, confidence {part.confidence:.0%}"
        shape = Markup('<rect class="{}" x="{}" y="0" width="{}" height="10"><title>{}</title></rect>').format(
            tones[part.label], part.first_page - 1, wide, words
        )
        address = f"/documents/{packet.id}?page={part.first_page}"
        drawn.append(Markup('<a href="{}" aria-label="{}">{}</a>').format(address, words, shape) if links else shape)
    for document in packet.documents:
        for gap in document.gaps:
            if document.first_page and gap.get("page"):
                page = document.first_page + int(gap["page"]) - 1
                drawn.append(
                    Markup('<rect class="gap" x="{}" y="7" width="1" height="3"><title>{}</title></rect>').format(
                        page - 1, f"Page {page}: {gap.get('reason', '')}"
                    )
                )
    said = ", ".join(f"{label_of(part.label)} {part.first_page}–{part.last_page}" for part in packet.parts)
    return Markup(
        '<svg class="strip {}" viewBox="0 0 {} 10" preserveAspectRatio="none" role="{}" aria-label="{}">{}</svg>'
    ).format(
        "" if links else "low", total, "group" if links else "img", said or f"{total} pages", Markup("").join(drawn)
    )
