"""Somebody else's bucket, from which documents are taken: S3, Azure Blob, Google Cloud Storage. Nothing is ever written there.

Google Cloud Storage is UNTESTED, as it is for our own blobs (cloud.py).
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import SecretStr

from penstock.blobs.cloud import PIECE, RANGE, make_bucket, reason_of
from penstock.errors import NotFound, Transient

if TYPE_CHECKING:
    from obstore.store import ObjectStore


@dataclass(frozen=True)
class Bucket:
    """A bucket below one prefix, to be read."""

    url: str
    objects: "ObjectStore"

    async def read(self, key: str) -> AsyncIterator[bytes]:
        """The bytes of one object in pieces, all of one moment: one that changes meanwhile is read again from its start."""
        import obstore

        with self._trouble(key):
            head = await obstore.head_async(self.objects, key)
        for at in range(0, head["size"], RANGE):
            with self._trouble(key):
                found = await obstore.get_async(
                    self.objects,
                    key,
                    options={"range": (at, min(at + RANGE, head["size"])), "if_match": head["e_tag"]},
                )
                whole = await found.bytes_async()
            view = memoryview(whole)
            for start in range(0, len(view), PIECE):
                yield bytes(view[start : start + PIECE])

    @contextmanager
    def _trouble(self, key: str) -> Iterator[None]:
        """Sentences for what obstore raises; its own text may quote a signed address."""
        from obstore.exceptions import BaseError, PreconditionError

        try:
            yield
        except FileNotFoundError:
            raise NotFound(f"There is no {key} in {self.url}.") from None
        except PreconditionError:
            raise Transient(f"{key} in {self.url} was changed while it was read: it is read again.") from None
        except (BaseError, OSError) as error:
            text = str(error)
        else:
            return
        raise Transient(f"Reading {key} from {self.url} failed: {reason_of(text)}.")


def open_bucket(url: str, endpoint: str | None, options: SecretStr | None) -> Bucket:
    """The bucket of a source. Nothing is asked of it yet."""
    return Bucket(url, make_bucket(url, endpoint, options, named="the url, endpoint and options of the source"))
