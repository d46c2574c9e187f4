"""`PostWebhook`: posts a notice to a receiver elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec


class WebhookCall(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to tell a receiver. The headers are complete."""

    url: str
    body: bytes
    headers: Mapping[str, str]


PostWebhook = Callable[[WebhookCall], int]
"""Posts a call, in bounded time, and gives the status that was answered; `Unavailable` when none was."""
