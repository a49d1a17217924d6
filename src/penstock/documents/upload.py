"""What somebody wants to put in, and what became of it."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock import telemetry
from penstock.errors import BadRequest, NameTaken

uploads = telemetry.counter(
    "penstock_documents_accepted",
    "Uploads that this process has taken in: new, version (of a document that was there), unchanged",
    ("outcome",),
)


@dataclass(frozen=True, slots=True)
class Upload:
    """What somebody wants to put in."""

    collection: str
    name: str
    content: AsyncIterator[bytes]
    size: int | None = None  # as announced; another size is an error
    uploaded_by: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    replace: bool = False
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of an upload."""

    id: int
    version: int
    collection: str
    name: str
    status: str
    created: bool  # a new document, or a new version of one
    unchanged: bool  # the same content was there already, and nothing was done
    served: bool  # a live worker prepares documents
    message: str
    digest: str  # sha-256, in hexadecimal digits
    size: int
    job: int | None

    def answer(self) -> dict[str, Any]:
        return asdict(self)


class AlreadyThere(NameTaken):
    """A document of this name is there; `digest_equal` says whether with the same content, if that was looked at."""

    def __init__(self, message: str, *, existing: int, digest_equal: bool | None = None) -> None:
        super().__init__(message, existing=existing)
        self.digest_equal = digest_equal


def taken(name: str, collection: str, existing: int, *, digest_equal: bool | None = None) -> AlreadyThere:
    same = " with the same content" if digest_equal else ""
    return AlreadyThere(
        f"There is a document {name} in {collection} already{same}: its number is {existing}. Use another name, or replace it.",
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
