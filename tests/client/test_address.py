"""Addresses: right ones, wrong ones, and tokens that show nowhere."""

from __future__ import annotations

import pytest

import restante
from restante.client.transport.address import _warn_of_plaintext, address_of, addresses_of
from restante.errors import InvalidRequest

TOKEN = "rst_very-secret"


@pytest.mark.parametrize(
    ("given", "url", "socket_url"),
    [
        ("http://127.0.0.1:8470", "http://127.0.0.1:8470", "ws://127.0.0.1:8470"),
        ("http://127.0.0.1:8470/", "http://127.0.0.1:8470", "ws://127.0.0.1:8470"),
        ("https://hub.example.org", "https://hub.example.org", "wss://hub.example.org"),
        ("https://example.org/hubs/one/", "https://example.org/hubs/one", "wss://example.org/hubs/one"),
        ("http://[::1]:8470", "http://[::1]:8470", "ws://[::1]:8470"),
        ("127.0.0.1:8470", "http://127.0.0.1:8470", "ws://127.0.0.1:8470"),
        (" hub.example.org:80/ ", "http://hub.example.org:80", "ws://hub.example.org:80"),
        ("[::1]:8470", "http://[::1]:8470", "ws://[::1]:8470"),
        (
            "https://Zoë.example.org:443/ü/",
            "https://xn--zo-ija.example.org:443/%C3%BC",
            "wss://xn--zo-ija.example.org:443/%C3%BC",
        ),
    ],
)
def test_an_address_leads_to_both_doors(given: str, url: str, socket_url: str) -> None:
    address = address_of(given)
    assert (address.url, address.socket_url) == (url, socket_url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:x",
        "127.0.0.1:99999",
        "user@host:80",
        "localhost",
        "ftp://127.0.0.1",
        "http://",
        "http://host:port",
        "http://host:99999",
        "http://host:0",
        "http://[::1",
        "http://a b",
        "http://host?x=1",
        "http://host/#part",
        "http://\x9bx:1",
        "http://a<b",
        "http://a..b",
        f"http://{'a' * 64}.example.org",
        "http://256.1.1.1",
        "http://[::1%lo]",
        "http://\ud800",
        "http://\xad",
        None,
        8470,
    ],
)
def test_a_wrong_address_is_refused_at_once(url: object) -> None:
    with pytest.raises(InvalidRequest, match="address"):
        restante.connect(url)  # type: ignore[arg-type]


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidRequest, match="token") as caught:
        restante.connect("http://ada:hunter2@127.0.0.1:8470")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "hunter 2", "hunter2\n", "hünter2", 42])
def test_a_token_that_cannot_be_one_is_refused_and_not_repeated(token: object) -> None:
    with pytest.raises(InvalidRequest, match="token") as caught:
        restante.connect(token=token)  # type: ignore[arg-type]
    assert not any(part in caught.value.message for part in ("hunter", "hünter", "42"))


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1", True),
        ("http://127.8.9.1:1", True),
        ("http://[::1]:8470", True),
        ("http://localhost", True),
        ("http://hub.localhost", True),
        ("http://10.0.0.1", False),
        ("http://localhost.example.org", False),
    ],
)
def test_only_this_machine_is_local(url: str, local: bool) -> None:
    assert address_of(url).local is local


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "3", None])
def test_a_wrong_timeout_is_refused_at_once(timeout: object) -> None:
    with pytest.raises(InvalidRequest, match="timeout"):
        restante.connect(timeout=timeout)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "token", "warned"),
    [
        ("http://10.1.2.3:8470", "secret", True),
        ("http://hub.example.org,https://hub.example.org", "secret", True),
        ("https://hub.example.org", "secret", False),
        ("http://127.0.0.1:8470", "secret", False),
        ("http://localhost:8470", "secret", False),
        ("http://10.9.9.9:8470", None, False),
    ],
)
def test_a_token_that_goes_to_another_machine_in_the_open_is_warned_of_once(
    caplog: pytest.LogCaptureFixture, url: str, token: str | None, warned: bool
) -> None:
    _warn_of_plaintext.cache_clear()
    addresses = addresses_of(url, token=token)
    assert not caplog.messages, "it has gone nowhere yet"
    for address in (*addresses, *addresses):
        address.credentials()
    assert [record.name for record in caplog.records] == ["restante.client"] * warned
    assert all("without encryption" in message and "secret" not in message for message in caplog.messages)


def test_the_token_shows_in_no_representation() -> None:
    with restante.connect(token=TOKEN) as hub:
        link = hub._link
        shown = [repr(hub), repr(link), repr(vars(link)), repr(address_of("http://localhost", token=TOKEN))]
    assert not any(TOKEN in text for text in shown)
