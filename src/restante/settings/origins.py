"""Settings of origins and their groups, and of webhooks: the addresses that the hub may call."""

from __future__ import annotations

from restante import limits
from restante.settings.rules import FLAG, Rule, Section, must_be
from restante.settings.texts import SECRET_PREFIX, is_network, is_unicode, is_web_address, secret_bytes


def is_name(text: str) -> bool:
    return 0 < len(text) <= limits.ORIGIN_CHARACTERS_MAX and not text.isspace() and is_unicode(text)


NAME = Rule(f"a text of 1 to {limits.ORIGIN_CHARACTERS_MAX} characters, not blank", is_name)
_GROUP = Rule(NAME.allowed, lambda value: value is None or is_name(value))
_URL = Rule(
    "an http or https address without user, password and fragment", lambda value: value is None or is_web_address(value)
)
_SECRET = Rule(
    f"{SECRET_PREFIX} and then base64 of {limits.WEBHOOK_SECRET_BYTES_MIN} to {limits.WEBHOOK_SECRET_BYTES_MAX} bytes",
    lambda value: value is None or secret_bytes(value) is not None,
    secret=True,
)
_NETWORKS = Rule(
    'a list of networks as address and length, such as ["10.1.0.0/16", "fd00::/8"]',
    lambda value: all(map(is_network, value)),
)


class OriginSettings(Section, frozen=True, kw_only=True):
    """One origin."""

    group: str | None = None
    """The origin group it belongs to; alone by default."""
    content_url: str | None = None
    """Where a served hub asks for the content of claim-check messages."""
    dequeued_url: str | None = None
    """The address to which a served hub posts a notice of each dequeued bundle."""

    secret: str | None = None
    """The secret that signs the calls to both; by default the one that `restante origins secret` shows."""

    rules = {"group": _GROUP, "content_url": _URL, "dequeued_url": _URL, "secret": _SECRET}

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.rules if name != "secret"}
        return f"OriginSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class OriginGroupSettings(Section, frozen=True, kw_only=True):
    """One origin group."""

    strict_order: bool = False
    """A bundle ends before the first waiting message of another cabinet of the group."""
    live_collect: bool = False
    """Whether clients that are connected may collect by saying up to which number they have got everything."""

    rules = {"strict_order": FLAG, "live_collect": FLAG}


class WebhookSettings(Section, frozen=True, kw_only=True):
    """The networks that the hub may call when a batch is complete: publishers name the addresses."""

    allowed_networks: tuple[str, ...] = ()
    """Networks that may be called beside public addresses: loopback, private and link-local ones are not otherwise."""

    rules = {"allowed_networks": _NETWORKS}


def problem_with_name(name: str) -> str | None:
    """The problem with the name of an origin or an origin group."""
    return None if is_name(name) else f"the name {must_be(NAME, name)}"
