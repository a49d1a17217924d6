"""A browser's session: a cookie that names a key and an end, signed, so that the key itself is not in the browser.

    v1.<signing key>.<key number>.<expiry, seconds since 1970>.<HMAC-SHA256>

It is as good as its key: one that is revoked ends the sessions that were opened with it.
"""

import hmac
import re
from datetime import timedelta

from penstock.access.signing import Signatures, seal
from penstock.errors import BadKey

LIVES = timedelta(hours=12)
COOKIE = "penstock_session"
FORM = re.compile(r"v1\.([a-z0-9]{8})\.([1-9][0-9]{0,9})\.([1-9][0-9]{0,11})\.([A-Za-z0-9_-]{43})", re.ASCII)


async def open_session(signatures: Signatures, key_id: int) -> str:
    """The cookie's value."""
    signing = await signatures.current()
    moment = int((signing.now + LIVES).timestamp())
    signature = seal(signing.secrets[signing.newest], ["session", key_id, moment])
    return f"v1.{signing.newest}.{key_id}.{moment}.{signature}"


async def read_session(signatures: Signatures, text: str) -> int:
    """The number of the key that a session was opened with."""
    form = FORM.fullmatch(text)
    if form is None:
        raise BadKey("This is not a session of Penstock: sign in again.")
    key_id, moment = int(form[2]), int(form[3])
    signing = await signatures.known(form[1])
    secret = signing.secrets.get(form[1], bytes(32))
    good = hmac.compare_digest(seal(secret, ["session", key_id, moment]), form[4]) and form[1] in signing.secrets
    if not good or not 0 < moment - signing.now.timestamp() <= LIVES.total_seconds():
        raise BadKey("This session is over: sign in again.")
    return key_id
