"""Why a hub cannot be reached: nothing answers, its name is unknown, it speaks no TLS, its certificate is not trusted.

The cause is recognised by the words of the drivers' errors, which come from Rust, OpenSSL or the operating system.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from restante.client.transport.address import HubAddress
from restante.errors import Unavailable

_UNKNOWN_NAME = ("dns error", "failed to lookup address", "name or service not known", "nodename nor servname")
_UNKNOWN_NAME_ALSO = ("temporary failure in name resolution", "getaddrinfo failed", "no address associated")
_NO_TLS = ("invalidcontenttype", "wrong_version_number", "record layer failure", "wrong version number")
_NOT_TRUSTED = ("invalid peer certificate", "certificate_verify_failed", "certificate verify failed")


def unreachable(address: HubAddress, reason: str) -> Unavailable:
    """The error of a hub that cannot be reached, with what to check."""
    return Unavailable(_told(address.url, reason.rstrip(".")), address=address.url)


def _told(url: str, reason: str) -> str:
    if _says(reason, *_UNKNOWN_NAME, *_UNKNOWN_NAME_ALSO):
        return f"The name {urlsplit(url).hostname} is unknown: {reason}. Check the address {url}."
    if _says(reason, *_NO_TLS):
        plain = url.replace("https://", "http://", 1)
        return f"The server at {url} does not speak HTTPS: {reason}. Is its address {plain}?"
    if _says(reason, *_NOT_TRUSTED):
        return f"The certificate of {url} is not trusted: {reason}. Check the address, and the certificate."
    return f"Nothing answers at {url}: {reason}. Check the address; is `restante serve` running there?"


def _says(reason: str, *words: str) -> bool:
    text = reason.casefold()
    return any(word in text for word in words)
