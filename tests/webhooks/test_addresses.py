"""Which addresses a webhook may be sent to."""

from __future__ import annotations

import pytest

from restante.errors import InvalidRequest
from restante.model.batches.batch_answers import Webhook
from restante.model.batches.webhook_addresses import is_allowed
from restante.model.batches.webhook_rules import check_webhook

PUBLIC = ["1.1.1.1", "8.8.8.8", "172.32.0.1", "192.0.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]
NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a00:1::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_may_be_called(address: str) -> None:
    assert is_allowed(address, ())


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_others_may_not_unless_their_network_is_allowed(address: str) -> None:
    assert not is_allowed(address, ())
    assert not is_allowed(address, ("4.0.0.0/8", "4000::/16"))
    assert is_allowed(address, ("0.0.0.0/0", "::/0"))


def test_an_allowed_network_holds_also_for_its_addresses_inside_ipv6() -> None:
    assert is_allowed("::ffff:10.1.2.3", ("10.1.0.0/16",))
    assert is_allowed("64:ff9b::10.1.2.3", ("10.1.0.0/16",))
    assert not is_allowed("::ffff:10.2.2.3", ("10.1.0.0/16",))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "localhost",
        "LOCALHOST.",
        "hub.localhost",
    ],
)
def test_an_address_that_shows_that_it_is_not_public_is_refused_when_it_is_given(host: str) -> None:
    webhook = Webhook(url=f"http://{host}:8080/done")
    with pytest.raises(InvalidRequest, match=r"webhooks\.allowed_networks") as caught:
        check_webhook(webhook, ())
    assert caught.value.details == {"parameter": "webhook"}
    assert check_webhook(webhook, ("127.0.0.0/8", "::1/128")) == (webhook.url, b"")


@pytest.mark.parametrize("host", ["receiver.example", "8.8.8.8", "[2606:4700::1111]", "localhost.example", "1.example"])
def test_names_and_public_addresses_may_be_given(host: str) -> None:
    assert check_webhook(Webhook(url=f"https://{host}/done"), ()) == (f"https://{host}/done", b"")
