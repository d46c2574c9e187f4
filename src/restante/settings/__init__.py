"""The settings of a hub, as one frozen value: what an operator decides, a section in each file."""

from __future__ import annotations

from restante.settings.backplane import BackplaneSettings
from restante.settings.cluster import ClusterSettings
from restante.settings.groups import ActionSettings, GroupSettings
from restante.settings.health import BoundSettings, HealthBounds, HealthSettings
from restante.settings.origins import OriginGroupSettings, OriginSettings, WebhookSettings
from restante.settings.server import LiveSettings, ServerSettings
from restante.settings.settings import Settings

__all__ = [
    "ActionSettings",
    "BackplaneSettings",
    "BoundSettings",
    "ClusterSettings",
    "GroupSettings",
    "HealthBounds",
    "HealthSettings",
    "LiveSettings",
    "OriginGroupSettings",
    "OriginSettings",
    "ServerSettings",
    "Settings",
    "WebhookSettings",
]
