"""Signatures of webhooks, by which receivers know who sent them, and when.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, read 2026-11.
"""

import base64
import hashlib
import hmac

from app.store.webhooks.webhooks import secret_bytes

Header = tuple[bytes, bytes]


def signature_headers(secret: str, id: str, timestamp_s: int, body: bytes) -> list[Header]:
    """The time is signed, so that a receiver can refuse what was recorded and is sent again later. Raises ValueError for a bad secret."""
    signed = b"%b.%d.%b" % (id.encode(), timestamp_s, body)
    signature = base64.b64encode(hmac.new(secret_bytes(secret), signed, hashlib.sha256).digest())
    return [(b"webhook-id", id.encode()), (b"webhook-timestamp", b"%d" % timestamp_s), (b"webhook-signature", b"v1," + signature)]
