"""The rule for hubs that ask for no token: they are reached from this machine only, unless that is said otherwise."""

from __future__ import annotations

from ipaddress import ip_address

from restante.errors import InvalidSettings


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine itself."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def refuse_open(host: str, *, insecure: bool) -> None:
    """Refuse to listen there for a hub that asks for no token, unless that is said to be what is wanted."""
    if not insecure and not is_loopback(host):
        raise InvalidSettings(
            f"{host} can be reached from other machines, and the hub would not ask for tokens. Make one with "
            "`restante tokens create --new`, serve on 127.0.0.1, or say --insecure if that is what you want."
        )
