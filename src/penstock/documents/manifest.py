"""The manifest of a message: the name, the metadata, and the documents, each by a URL, a key or its bytes.

The settings of a source say at which paths of a message these are; a dot goes one level down. A malformed message is
`BadMessage`: it becomes a dead letter whose reason names the path.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.documents.inbox import POISON
from penstock.documents.names import check_document_name, encode_metadata
from penstock.errors import BadMessage, Refused
from penstock.settings import SourceSettings

DIGEST = "penstock:digest"  # in a document: bytes that came with the message


@dataclass(frozen=True, slots=True)
class Reference:
    """One document, and the one way to its bytes."""

    name: str
    url: str = ""
    blob: str = ""
    content: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The document or packet that a message asks for."""

    name: str
    documents: Sequence[Reference]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    uploaded_by: str = ""  # this and the next: of a packet that came by HTTP
    require_all: bool | None = None


def read_manifest(payload: Mapping[str, Any], chosen: SourceSettings, message_id: str, *, most: int) -> Manifest:
    """The message by the settings of its source; `most` documents."""
    if reason := payload.get(POISON):
        raise BadMessage(str(reason))
    name = _name(_at(payload, chosen.name_from), message_id, chosen.name_from)
    metadata = _metadata(_at(payload, chosen.metadata_from), chosen.metadata_from)
    if chosen.makes == "document":
        return Manifest(name, [_reference(payload, chosen, name, "the message")], metadata)
    listed = _at(payload, chosen.documents_from)
    if isinstance(listed, str):  # a column of text, or JSON within JSON
        listed = _parsed(listed, chosen.documents_from)
    if not isinstance(listed, list) or not listed:
        raise BadMessage(
            f"The message has no list of documents at {chosen.documents_from!r}: correct the sender, or documents_from."
        )
    if len(listed) > most:
        raise BadMessage(
            f"The packet has {len(listed):,} documents, more than {most:,} (packet.documents): split it, or raise the limit."
        )
    found = [_listed(each, chosen, place) for place, each in enumerate(listed, 1)]
    require_all = payload.get("require_all")
    return Manifest(
        name,
        found,
        metadata,
        str(payload.get("uploaded_by", "")),
        require_all if isinstance(require_all, bool) else None,
    )


def _listed(value: Any, chosen: SourceSettings, place: int) -> Reference:
    where = f"document {place} of the packet"
    if isinstance(value, str):  # a list of URLs or keys is a list of documents, too
        value = {chosen.url_from if "://" in value else chosen.blob_from: value}
    if not isinstance(value, Mapping):
        raise BadMessage(f"In the message, {where} is not an object with named fields.")
    given = _at(value, chosen.file_name_from)
    ways = (_at(value, chosen.url_from), _at(value, chosen.blob_from))
    guess = (
        next((way.rpartition("?")[0] or way for way in ways if isinstance(way, str) and way), "")
        .rstrip("/")
        .rpartition("/")[2]
    )
    name = given if isinstance(given, str) and given.strip() else guess or f"document-{place}"
    return _reference(value, chosen, name, where)


def _reference(value: Mapping[str, Any], chosen: SourceSettings, name: str, where: str) -> Reference:
    ways = {
        "url": _at(value, chosen.url_from),
        "blob": _at(value, chosen.blob_from),
        "content": _at(value, chosen.content_from),
        "digest": value.get(DIGEST),
    }
    given = {way: text for way, text in ways.items() if text not in (None, "")}
    if len(given) != 1 or not all(isinstance(text, str) for text in given.values()):
        said = "several ways" if len(given) > 1 else "no way"
        names = f"{chosen.url_from}, {chosen.blob_from} or {chosen.content_from}"
        raise BadMessage(f"There is {said} to the bytes of {where}: give exactly one of {names}, as text.")
    return Reference(name, **given)


def _at(value: Any, path: str) -> Any:
    for part in path.split(".") if path else ():
        if isinstance(value, str) and value[:1] in "{[":
            value = _parsed(value, path)
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _parsed(text: str, path: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadMessage(f"The field {path!r} of the message is not JSON: correct the sender.") from None


def _name(value: Any, message_id: str, path: str) -> str:
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    try:
        return check_document_name(text or message_id)
    except Refused as error:
        raise BadMessage(f"The message cannot be named by its {path if text else 'id'}: {error}") from None


def _metadata(value: Any, path: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if isinstance(value, str):
        value = _parsed(value, path)
    if not isinstance(value, Mapping):
        raise BadMessage(f"The field {path!r} of the message is not an object with named fields: correct the sender.")
    try:
        encode_metadata(value)
    except Refused as error:
        raise BadMessage(f"The metadata of the message cannot be kept: {error}") from None
    return value
