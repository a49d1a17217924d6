"""Buckets of others from which documents are read: S3, Azure Blob, Google Cloud Storage. Nothing is ever written there.

Google Cloud Storage is UNTESTED, as it is for our own blobs (cloud.py).
"""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import SecretStr

from penstock.blobs.cloud import PIECE, RANGE, make_bucket, reason_of
from penstock.errors import NotFound, Transient

if TYPE_CHECKING:
    from obstore.store import ObjectStore


@dataclass(frozen=True, slots=True)
class BucketObject:
    key: str  # below the prefix
    size: int
    etag: str
    modified: datetime


@dataclass(frozen=True)
class Bucket:
    """A bucket below one prefix, to be read."""

    url: str
    objects: "ObjectStore"

    @property
    def place(self) -> str:
        """Its name in sentences; the whole address is a secret of the settings, which no text may quote."""
        return "the bucket " + self.url.partition("://")[2].rpartition("@")[2]

    @property
    def resumes(self) -> bool:
        """Whether a listing can begin after a key. S3 and GCS list in the order of keys; Azure may have another order."""
        return not self.url.startswith("az:")

    async def pages(self, after: str | None, size: int) -> AsyncIterator[list[BucketObject]]:
        """All objects below the prefix in pages, from after a key on if it `resumes`."""
        import obstore

        offset = after if self.resumes else None
        with self._trouble():
            listing = obstore.list(self.objects, offset=offset or None, chunk_size=size)
        while True:
            with self._trouble():
                found = await anext(listing, None)
            if found is None:
                return
            yield [
                BucketObject(each["path"], each["size"], (each["e_tag"] or "").strip('"'), each["last_modified"])
                for each in found
            ]

    async def read(self, key: str) -> AsyncIterator[bytes]:
        """The bytes of one object in pieces, all of one version; an object that changes meanwhile is `Transient`."""
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
    def _trouble(self, key: str = "") -> Iterator[None]:
        """Sentences for what obstore raises; its own text may quote a signed address. Without a key it is about a listing."""
        from obstore.exceptions import BaseError, InvalidPathError, PreconditionError

        try:
            yield
        except FileNotFoundError:
            if not key:
                raise Transient(
                    f"Listing {self.place} failed: it does not exist. Create it, or correct the url."
                ) from None
            raise NotFound(f"{key} does not exist in {self.place}.") from None
        except InvalidPathError as error:
            raise Transient(self._bad_key(key, str(error))) from None
        except PreconditionError:
            raise Transient(f"{key} in {self.place} was changed while it was read: it is read again.") from None
        except (BaseError, OSError) as error:
            text = str(error)
        else:
            return
        raise Transient(self._reason(key, text))

    def _bad_key(self, key: str, text: str) -> str:
        found = re.search(r'[Pp]ath "([^"]{1,500})"', text)
        name = ascii(key or (found[1] if found else "an object"))
        return (
            f"{self.place} has the object {name}: a key with an empty part, a part of dots or a control character stops the "
            "listing. Rename or remove it, or set the url to a prefix without it."
        )

    def _reason(self, key: str, text: str) -> str:
        doing = f"Reading {key} from {self.place}" if key else f"Listing {self.place}"
        if re.search(r"NoSuchBucket|ContainerNotFound", text):
            return f"{doing} failed: the bucket does not exist. Create it, or correct the url."
        if re.search(r"status code: 40[13]|AccessDenied|Unauthenticated|PermissionDenied", text):
            return f"{doing} failed: access is denied. Correct the credentials in the options, or what they may do."
        return f"{doing} failed: {reason_of(text)}. Check the url, the endpoint, the options and the network."


def open_bucket(url: str, endpoint: str | None, options: SecretStr | None) -> Bucket:
    """The bucket of a source. No request is made yet."""
    return Bucket(url, make_bucket(url, endpoint, options, named="the url, endpoint and options of the source"))
