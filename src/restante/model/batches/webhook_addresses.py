"""Which addresses a webhook may be sent to: public ones, and those of the networks that the operator allows.

Publishers name webhooks, and the hub may reach what they cannot: its own machine, the network around it, the metadata
of its cloud. `ipaddress.is_global` knows most of what is not public; the networks below are those it misses, or misses
in some versions of Python. An IPv4 address inside an IPv6 one counts as the IPv4 address that a packet would go to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

IpAddress = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_LOOPBACK = (IPv4Address("127.0.0.1"), IPv6Address("::1"))
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""NAT64: the last 32 bits are the IPv4 address."""
_PUBLIC_V6 = IPv6Network("2000::/3")
"""The addresses that were ever assigned to be routed between networks."""
_NOT_PUBLIC = tuple(
    map(
        ip_network,
        (
            "192.0.0.0/24",  # protocols, and metadata of a cloud
            "192.88.99.0/24",  # relays of 6to4
            "168.63.129.16/32",  # looks public; the platform behind virtual machines on Azure
            "2001::/23",  # protocols, Teredo among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "3fff::/20",  # documentation
        ),
    )
)
_LOOSELY_WRITTEN = re.compile(r"(0x[0-9a-f]+|[0-9]+)(\.(0x[0-9a-f]+|[0-9]+)){0,3}")


def is_allowed(address: str, allowed_networks: Sequence[str]) -> bool:
    """Whether a webhook may be sent to an IP address."""
    return _is_allowed(ip_address(address), _networks(tuple(allowed_networks)))


def is_refused_at_sight(host: str, allowed_networks: Sequence[str]) -> bool:
    """Whether the host of an address says by itself that no webhook may be sent there. A name is looked up later."""
    networks = _networks(tuple(allowed_networks))
    seen = _addresses_in(host.removesuffix(".").lower())
    return bool(seen) and not any(_is_allowed(address, networks) for address in seen)


def _addresses_in(host: str) -> Sequence[IpAddress]:
    if host == "localhost" or host.endswith(".localhost"):
        return _LOOPBACK
    try:
        return (_ip_address(host),)
    except ValueError:
        return ()


def _ip_address(host: str) -> IpAddress:
    """An address as it is usually written, or as systems read it too: 127.1, 0177.0.0.1, 0x7f000001."""
    if not _LOOSELY_WRITTEN.fullmatch(host):
        return ip_address(host)
    *bytes_before, rest = [int(part, _base(part)) for part in host.split(".")]
    value = rest
    for place, byte in enumerate(bytes_before):
        value += byte << (24 - 8 * place)
    return IPv4Address(value)


def _base(part: str) -> int:
    if part.startswith("0x"):
        return 16
    return 8 if part.startswith("0") else 10


@lru_cache(16)
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(map(ip_network, texts))


def _is_allowed(address: IpAddress, networks: Sequence[Network]) -> bool:
    target = _target(address)
    return _is_public(target) or any(form in network for network in networks for form in (address, target))


def _target(address: IpAddress) -> IpAddress:
    """Where a packet to it ends up."""
    if isinstance(address, IPv4Address):
        return address
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address


def _is_public(address: IpAddress) -> bool:
    if not address.is_global or address.is_multicast:
        return False
    if isinstance(address, IPv6Address) and address not in _PUBLIC_V6:
        return False
    return not any(address in network for network in _NOT_PUBLIC)
