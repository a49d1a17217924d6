"""An upload whose words are checked, on its way to a document."""

import hashlib
import json
from dataclasses import dataclass, replace

from penstock.blobs import Stored
from penstock.documents.metadata import encode_metadata
from penstock.documents.naming import check_collection_name, check_document_name
from penstock.documents.upload import Accepted, Upload

PREPARE, PREPARE_PACKET = "prepare_document", "prepare_packet"  # the kinds of jobs
UNSERVED = "no worker is running: start one with `penstock worker` or `penstock up`"


@dataclass(frozen=True, slots=True)
class Wish:
    """An upload whose words are checked, and what was found before it."""

    tenant: str
    collection_id: int
    collection: str
    name: str
    uploaded_by: str
    metadata: str
    replace: bool
    served: bool
    kind: str = PREPARE  # of the job that prepares it
    number: int | None = None  # of the document, if it has one before it is there

    def numbered(self, number: int) -> "Wish":
        """The same for a document that shall have this number."""
        return replace(self, number=number)

    def fingerprint(self, digest: bytes) -> bytes:
        parts = [digest.hex(), str(self.collection_id), self.name, self.metadata, str(self.replace)]
        return hashlib.sha256(json.dumps(parts).encode()).digest()


def make_wish(upload: Upload, tenant: str, collection_id: int, *, served: bool) -> Wish:
    return Wish(
        tenant,
        collection_id,
        check_collection_name(upload.collection),
        check_document_name(upload.name),
        upload.uploaded_by.replace("\0", "")[:200],
        encode_metadata(upload.metadata),
        upload.replace,
        served,
    )


class Moved(Exception):
    """The document was replaced, deleted or made by somebody else: look again."""


def accepted(wish: Wish, stored: Stored, document: int, number: int, job: int, *, live: int | None = None) -> Accepted:
    """The answer about a new version; `live` is the version that search sees meanwhile."""
    message = "accepted" if number == 1 else f"accepted as version {number}"
    if live is not None:
        message += f"; version {live} is found until it is ready"
    return Accepted(
        id=document,
        version=number,
        collection=wish.collection,
        name=wish.name,
        status="queued",
        created=True,
        unchanged=False,
        served=wish.served,
        message=message if wish.served else f"{message}; {UNSERVED}",
        digest=stored.digest.hex(),
        size=stored.size,
        job=job,
    )
