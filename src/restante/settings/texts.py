"""Texts in settings that have a form of their own: addresses, secrets, networks."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from urllib.parse import urlsplit

from restante import limits


def is_web_address(text: str) -> bool:
    """Whether a text is an address that the hub may call: it has no password in it."""
    return is_address(text, ("http", "https"))


def is_address(text: str, schemes: tuple[str, ...]) -> bool:
    """Without a user and password: settings are shown, and errors name what was asked."""
    if not re.fullmatch(r"[!-~]+", text):
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port  # which raises when it is no port
    except ValueError:
        return False
    return parts.scheme in schemes and bool(parts.hostname) and "@" not in parts.netloc and not parts.fragment


SECRET_PREFIX = "whsec_"


def secret_bytes(text: str) -> bytes | None:
    """The bytes of a secret as Standard Webhooks write it; None when it is none."""
    if not text.startswith(SECRET_PREFIX):
        return None
    try:
        secret = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return secret if limits.WEBHOOK_SECRET_BYTES_MIN <= len(secret) <= limits.WEBHOOK_SECRET_BYTES_MAX else None


def is_network(text: str) -> bool:
    try:
        return bool(ipaddress.ip_network(text))
    except ValueError:
        return False


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def is_path(text: str) -> bool:
    return bool(text.strip()) and "\0" not in text and is_unicode(text)


def is_store_url(text: str) -> bool:
    """Whether a text is the address of a store that is not a folder."""
    return text.startswith(("postgresql://", "postgres://"))
