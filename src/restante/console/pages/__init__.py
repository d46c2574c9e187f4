"""The pages, one module a subject, and what they change."""

from __future__ import annotations

from restante.console.pages import (
    actions,
    batches,
    confirmation,
    consignments,
    groups,
    health,
    jobs,
    mailbox,
    message,
    nodes,
    operators,
    overview,
    partitions,
    recipients,
    sign_in,
)
from restante.console.web.console_routes import ConsoleRoute

ROUTES: tuple[ConsoleRoute, ...] = (
    *overview.ROUTES,
    *health.ROUTES,
    *recipients.ROUTES,
    *mailbox.ROUTES,
    *message.ROUTES,
    *batches.ROUTES,
    *consignments.ROUTES,
    *partitions.ROUTES,
    *nodes.ROUTES,
    *groups.ROUTES,
    *actions.ROUTES,
    *jobs.ROUTES,
    *operators.ROUTES,
    *confirmation.ROUTES,
)
"""Every address of the console, less signing in and out, streams, and its own style and script."""

__all__ = ["ROUTES", "sign_in"]
