"""Webhooks over HTTP: one attempt, within its time. Redirects are not followed, and what is answered is not read."""

from __future__ import annotations

from datetime import timedelta
from functools import cache

from pyreqwest.client import SyncClient, SyncClientBuilder
from pyreqwest.exceptions import PyreqwestError, RequestTimeoutError

from restante import limits
from restante.errors import Unavailable
from restante.ports.webhook import PostWebhook, WebhookCall


def webhook_poster(*, seconds: float = limits.WEBHOOK_SECONDS_MAX) -> PostWebhook:
    """Posts webhooks. What that takes is set up with the first one: most hubs have none."""

    @cache
    def client() -> SyncClient:
        return SyncClientBuilder().follow_redirects(False).user_agent("restante").build()

    return lambda call: _post(client(), call, seconds)


def _post(client: SyncClient, call: WebhookCall, seconds: float) -> int:
    try:
        request = client.post(call.url).body_bytes(call.body).timeout(timedelta(seconds=seconds))
        for name, value in call.headers.items():
            request = request.header(name, value)
        with request.build_streamed() as response:
            return response.status
    except RequestTimeoutError as error:
        raise Unavailable(f"did not answer within {seconds:g} s") from error
    except (PyreqwestError, ValueError) as error:
        raise Unavailable(f"could not be reached, or broke off: {_root(error)}") from error


def _root(error: Exception) -> str:
    """The innermost cause, which says most and does not repeat the address."""
    causes = getattr(error, "details", {}).get("causes") or []
    return str(causes[-1]["message"]) if causes else getattr(error, "message", str(error))
