"""Uploads: the request, its validation, and the answer."""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import Field

from penstock import telemetry
from penstock.blobs import StoredBlob
from penstock.documents.names import PREPARE, check_collection_name, check_document_name, encode_metadata
from penstock.errors import BadRequest, NameTaken
from penstock.text import storable

uploads = telemetry.counter(
    "penstock_documents_accepted",
    "Uploads that this process has taken in: new, version (of a document that was there), unchanged",
    ("outcome",),
)


UNSERVED = "no worker is running: start one with `penstock worker` or `penstock up`"


@dataclass(frozen=True, slots=True)
class Upload:
    """A document that a client sends."""

    collection: str
    name: str
    content: AsyncIterator[bytes]
    size: int | None = None  # as announced; another size is an error
    uploaded_by: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    replace: bool = False
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedUpload:
    """A validated upload, and what is known before its bytes are stored."""

    tenant: str
    collection_id: int
    collection: str
    name: str
    uploaded_by: str
    metadata: str
    replace: bool
    served: bool
    kind: str = PREPARE  # of the job that prepares it
    number: int | None = None  # the id of the document, if it was reserved before

    def fingerprint(self, digest: bytes) -> bytes:
        parts = [digest.hex(), str(self.collection_id), self.name, self.metadata, str(self.replace)]
        return hashlib.sha256(json.dumps(parts).encode()).digest()


@dataclass(frozen=True, slots=True)
class Accepted:
    """A document that will be prepared."""

    id: int
    version: Annotated[int, Field(description="1 for a new document.")]
    collection: str
    name: str
    status: str
    created: Annotated[bool, Field(description="A new document, or a new version of one.")]
    unchanged: Annotated[bool, Field(description="True: its content is the same as before; nothing is done.")]
    served: Annotated[bool, Field(description="Whether a worker runs that will prepare it.")]
    message: str
    digest: Annotated[str, Field(description="SHA-256 of its bytes.")]
    size: int
    job: int | None = None

    def answer(self) -> dict[str, Any]:
        return asdict(self)


class AlreadyThere(NameTaken):
    """A document of this name exists; `digest_equal` tells whether with the same content, if that was compared."""

    def __init__(self, message: str, *, existing: int, digest_equal: bool | None = None) -> None:
        super().__init__(message, existing=existing)
        self.digest_equal = digest_equal


class ConcurrentChange(Exception):
    """A concurrent transaction replaced, deleted or made the document: read it again."""


def taken(name: str, collection: str, existing: int, *, digest_equal: bool | None = None) -> AlreadyThere:
    same = " with the same content" if digest_equal else ""
    return AlreadyThere(
        f"Document {name} exists already in {collection}{same} (id {existing}): use another name, or replace it.",
        existing=existing,
        digest_equal=digest_equal,
    )


def check_size(upload: Upload, size: int) -> None:
    if upload.size is not None and upload.size != size:
        raise BadRequest(
            f"{upload.size:,} bytes were announced, and {size:,} came: nothing was kept. Send the document again."
        )


def count_accepted(accepted: Accepted) -> None:
    """After the commit."""
    uploads.labels("unchanged" if accepted.unchanged else "new" if accepted.version == 1 else "version").inc()


def check_upload(upload: Upload, tenant: str, collection_id: int, *, served: bool) -> CheckedUpload:
    return CheckedUpload(
        tenant,
        collection_id,
        check_collection_name(upload.collection),
        check_document_name(upload.name),
        storable(upload.uploaded_by, "")[:200],
        encode_metadata(upload.metadata),
        upload.replace,
        served,
    )


def accepted(
    checked: CheckedUpload, stored: StoredBlob, document: int, number: int, job: int, *, live: int | None = None
) -> Accepted:
    """The answer about a new version; `live` is the version that search sees meanwhile."""
    message = "accepted" if number == 1 else f"accepted as version {number}"
    if live is not None:
        message += f"; version {live} is found until it is ready"
    return Accepted(
        id=document,
        version=number,
        collection=checked.collection,
        name=checked.name,
        status="queued",
        created=True,
        unchanged=False,
        served=checked.served,
        message=message if checked.served else f"{message}; {UNSERVED}",
        digest=stored.digest.hex(),
        size=stored.size,
        job=job,
    )
