"""Signing a message for a webhook of Penstock: its receiver checks the signature before anything else."""

import hashlib
import hmac
import time


def sign_message(secret: str, message_id: str, body: bytes, *, timestamp: int | None = None) -> dict[str, str]:
    """The headers that go with the body, which is sent byte for byte as it was signed; `message_id` may be in the body."""
    moment = str(int(time.time()) if timestamp is None else timestamp)
    signed = b".".join([moment.encode(), message_id.encode(), body])
    headers = {
        "Penstock-Timestamp": moment,
        "Penstock-Signature": f"v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}",
    }
    if message_id:
        headers["Penstock-Message-Id"] = message_id
    return headers
