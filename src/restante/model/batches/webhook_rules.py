"""The rules of webhooks: their addresses, secrets and signatures, and how long to wait before one is tried again."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from restante import limits
from restante.errors import InvalidRequest
from restante.model.back_off import back_off
from restante.model.batches.batch_answers import Webhook
from restante.model.batches.webhook_addresses import is_refused_at_sight
from restante.settings.texts import SECRET_PREFIX, is_web_address, secret_bytes

_MADE_SECRET_BYTES = 32
_FIRST_PAUSE_SECONDS = 1.0


def check_webhook(webhook: Webhook, allowed_networks: Sequence[str]) -> tuple[str, bytes]:
    """The address and the secret; without a secret, no bytes."""
    url: object = webhook.url  # whatever a caller in this process gave
    if not isinstance(url, str) or len(url) > limits.WEBHOOK_URL_CHARACTERS_MAX or not is_web_address(url):
        raise InvalidRequest(
            "webhook.url must be an http or https address without user, password and fragment, of at most "
            f"{limits.WEBHOOK_URL_CHARACTERS_MAX:,} characters.",
            parameter="webhook",
        )
    host = urlsplit(url).hostname or ""
    if is_refused_at_sight(host, allowed_networks):
        raise InvalidRequest(
            f"webhook.url must lead to a public address, not {host!r}. Give another one, or have the operator of the hub "
            "add its network to the setting webhooks.allowed_networks.",
            parameter="webhook",
        )
    return url, b"" if webhook.secret is None else _secret(webhook.secret)


def new_secret(random: Callable[[int], bytes]) -> bytes:
    """A secret for a webhook that was given none."""
    return random(_MADE_SECRET_BYTES)


def secret_text(secret: bytes) -> str:
    """A secret as receivers are given it."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def pause_seconds(attempts: int, fraction: float) -> float:
    """How long to wait after so many failed attempts: twice as long each time, less up to a half by chance."""
    first, longest = _FIRST_PAUSE_SECONDS, limits.WEBHOOK_PAUSE_SECONDS_MAX
    return back_off(attempts, first=first, longest=longest, chance=fraction)


def _secret(text: object) -> bytes:
    secret = secret_bytes(text) if isinstance(text, str) else None
    if secret is not None:
        return secret
    raise InvalidRequest(
        f"webhook.secret must be {SECRET_PREFIX} and then base64 of {limits.WEBHOOK_SECRET_BYTES_MIN} to "
        f"{limits.WEBHOOK_SECRET_BYTES_MAX} bytes. Without one, the hub makes one.",
        parameter="webhook",
    )


def signed_headers(*, secret: bytes, webhook_id: str, at_seconds: int, body: bytes) -> dict[str, str]:
    """The headers by which a receiver knows who sent a body, and when: as Standard Webhooks has them.

    The id is the same at each attempt, so that a receiver knows a repeated call; the time is that of the attempt.
    """
    signed = b"%s.%d.%s" % (webhook_id.encode(), at_seconds, body)
    signature = base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(at_seconds),
        "webhook-signature": f"v1,{signature}",
    }
