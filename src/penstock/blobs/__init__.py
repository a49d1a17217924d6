"""Blob stores: the bytes of documents in a folder or a bucket, and the collector of those that belong to no document."""

from penstock.blobs.collector import collect, unknown_keys
from penstock.blobs.external_bucket import Bucket, BucketObject, open_bucket
from penstock.blobs.store import BlobStore, StoredBlob, open_store, probe
