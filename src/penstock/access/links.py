"""Download links that carry their own permission: who has one may read one document, for some minutes, without a key.

    v1.<key id>.<expiry, seconds since 1970>.<HMAC-SHA256, base64url>

The signature is over the version, key id, method, document, tenant and expiry, as a JSON array: no value can run into the
next one. A link lives for 15 minutes at most; who checks enforces it, too, so that a signer with a wrong clock makes nothing
that lasts. Whatever is wrong, the answer is 404, as for a document that is not there.
"""

import hmac
import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from penstock.access.signing import seal
from penstock.errors import NotFound

LONGEST = timedelta(minutes=15)
VERSION = "v1"
LEAST_SECRET = 32  # bytes: as many as the hash has

_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_TOKEN = re.compile(r"v1\.([A-Za-z0-9_-]{1,40})\.([1-9][0-9]{0,11})\.([A-Za-z0-9_-]{43})", re.ASCII)


def sign(
    secret_key: bytes, key_id: str, *, method: str, document: int, tenant: str, expires: datetime, now: datetime
) -> str:
    """A token for one method on one document; `expires` is cut to whole seconds, and lies within 15 minutes of `now`."""
    if len(secret_key) < LEAST_SECRET:
        raise ValueError(f"A secret for links has at least {LEAST_SECRET} bytes.")
    if not _KEY_ID.fullmatch(key_id):
        raise ValueError("The id of a key has 1 to 40 letters, digits, - or _.")
    if not now < expires <= now + LONGEST:
        raise ValueError("A link expires in the future, and within 15 minutes.")
    moment = int(expires.timestamp())
    signature = seal(secret_key, ["link", VERSION, key_id, method.upper(), document, tenant, moment])
    return f"{VERSION}.{key_id}.{moment}.{signature}"


def check(keys: Mapping[str, bytes], token: str, *, method: str, document: int, tenant: str, now: datetime) -> None:
    """Return when the token allows this very request now; raise NotFound otherwise."""
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        raise NotFound("This is not a download link of Penstock. Ask for a new one.")
    key_id, moment, signature = parts[1], int(parts[2]), parts[3]
    secret_key = keys.get(key_id)
    known = secret_key is not None and len(secret_key) >= LEAST_SECRET
    facts: list[str | int] = ["link", VERSION, key_id, method.upper(), document, tenant, moment]
    # An unknown key costs the same work: time does not tell which ids exist.
    expected = seal(secret_key if secret_key and known else bytes(LEAST_SECRET), facts)
    if not hmac.compare_digest(expected, signature) or not known:
        raise NotFound("This download link is not valid for this document. Ask for a new one.")
    left = moment - now.timestamp()
    if not 0 < left <= LONGEST.total_seconds():
        raise NotFound("This download link is not valid any more. Ask for a new one.")
