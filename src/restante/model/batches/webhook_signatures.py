"""Signatures of webhooks, as Standard Webhooks has them: receivers verify them with a library of theirs.

The id is the same at each attempt, so that a receiver knows a repeated call; the time is that of the attempt.
"""

from __future__ import annotations

import base64
import hashlib
import hmac


def signed_headers(*, secret: bytes, webhook_id: str, at_seconds: int, body: bytes) -> dict[str, str]:
    """The headers by which a receiver knows who sent a body, and when."""
    signed = b"%s.%d.%s" % (webhook_id.encode(), at_seconds, body)
    signature = base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(at_seconds),
        "webhook-signature": f"v1,{signature}",
    }
