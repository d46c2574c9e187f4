"""One attempt to post a webhook, over real sockets."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pyreqwest.client import SyncClientBuilder

from restante import errors
from restante.outside.webhooks import webhook_poster
from restante.ports.webhook import WebhookCall
from tests.webhooks.receiver import Call, Handler, is_silent, receiving, says

LOOPBACK = ("127.0.0.0/8",)
NAME = "receiver.test"
"""A name that nobody has: only a look-up of the test's own finds it."""


def call_to(url: str) -> WebhookCall:
    return WebhookCall(url=url, body=b'{"a":1}', headers={"content-type": "application/json", "webhook-id": "one"})


def test_the_body_and_the_headers_arrive_as_they_are() -> None:
    with receiving() as receiver:
        assert webhook_poster(LOOPBACK)(call_to(receiver.url + "?x=1")) == 200
        call = receiver.next()
    assert (call.path, call.body) == ("/completed?x=1", b'{"a":1}')
    assert (call.headers["content-type"], call.webhook_id) == ("application/json", "one")


@pytest.mark.parametrize("status", [204, 400, 410, 503])
def test_the_status_is_given_whatever_it_is(status: int) -> None:
    with receiving() as receiver:
        receiver.answer = says(status)
        assert webhook_poster(LOOPBACK)(call_to(receiver.url)) == status


def test_redirects_are_not_followed() -> None:
    with receiving() as receiver:
        receiver.answer = says(302, Location=receiver.url + "/elsewhere")
        assert webhook_poster(LOOPBACK)(call_to(receiver.url)) == 302
        assert receiver.next().path == "/completed"
        assert receiver.calls.empty()


def test_an_answer_without_end_is_not_read() -> None:
    with receiving() as receiver:

        def pours(handler: Handler, _: Call) -> None:
            handler.send_response(200)
            handler.end_headers()
            while not receiver.over.is_set():
                handler.wfile.write(b"x" * 65_536)

        receiver.answer = pours
        assert webhook_poster(LOOPBACK)(call_to(receiver.url)) == 200


def test_a_receiver_that_does_not_answer_in_time_is_unavailable() -> None:
    with receiving() as receiver:
        receiver.answer = is_silent
        with pytest.raises(errors.Unavailable, match=r"did not answer within 0\.1 s"):
            webhook_poster(LOOPBACK, seconds=0.1)(call_to(receiver.url))


def test_nobody_there_is_unavailable_and_says_why_without_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(errors.Unavailable) as caught:
        webhook_poster(LOOPBACK)(call_to(f"http://127.0.0.1:{port}/token-in-the-path"))
    assert "refused" in str(caught.value)
    assert "token-in-the-path" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://%zz/", "http://a.invalid:99/", "nothing"])
def test_an_address_that_leads_nowhere_is_unavailable(url: str) -> None:
    with pytest.raises(errors.Unavailable):
        webhook_poster(LOOPBACK)(call_to(url))


def test_a_receiver_that_hangs_up_is_unavailable() -> None:
    def hangs_up(handler: Handler, _: Call) -> None:
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True

    with receiving() as receiver:
        receiver.answer = hangs_up
        with pytest.raises(errors.Unavailable, match="could not be reached, or broke off"):
            webhook_poster(LOOPBACK)(call_to(receiver.url))


class Names:
    """Somebody who answers for a name, another way each time."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        return self._answers.pop(0)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://127.1:{port}/",
        "http://0x7f000001:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://0.0.0.0:{port}/",
    ],
)
def test_an_address_that_is_not_public_is_not_connected_to(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        with pytest.raises(errors.Unavailable, match="may not be called"):
            webhook_poster()(call_to(url.format(port=listener.getsockname()[1])))
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_name_is_looked_up_once_and_the_address_that_was_checked_is_called() -> None:
    with receiving() as receiver:
        names = Names(["127.0.0.1"], ["10.0.0.1"])
        url = f"http://{NAME}:{receiver.server_port}/completed"
        assert webhook_poster(LOOPBACK, look_up=names)(call_to(url)) == 200
        call = receiver.next()
        assert (call.headers["host"], names.asked) == (f"{NAME}:{receiver.server_port}", [NAME])
        with pytest.raises(errors.Unavailable, match=r"may not be called: 10\.0\.0\.1 is not public"):
            webhook_poster(LOOPBACK, look_up=names)(call_to(url))
        assert receiver.calls.empty()


def test_of_several_addresses_only_those_that_may_be_called_are() -> None:
    with receiving() as receiver:
        names = Names(["10.0.0.1", "127.0.0.2", "127.0.0.1"])  # Nobody listens at the second.
        url = f"http://{NAME}:{receiver.server_port}/completed"
        assert webhook_poster(LOOPBACK, look_up=names)(call_to(url)) == 200


def test_a_name_that_is_not_found_in_time_is_unavailable() -> None:
    over = threading.Event()

    def stuck(_: str) -> Sequence[str]:
        over.wait()
        return []

    with pytest.raises(errors.Unavailable, match=r"receiver\.test was not found \(not within 0\.1 s\)"):
        webhook_poster(look_up=stuck, seconds=0.1)(call_to(f"http://{NAME}/"))
    over.set()


def test_the_environments_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as proxy, receiving() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
        url = f"http://{NAME}:{receiver.server_port}/completed"
        assert webhook_poster(LOOPBACK, look_up=Names(["127.0.0.1"]))(call_to(url)) == 200
        assert receiver.next().path == "/completed"
        assert proxy.calls.empty()


def certified(folder: Path, name: str) -> tuple[ssl.SSLContext, bytes]:
    """The side of a server that has a certificate for a name, and the certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both = folder / "server.pem"
    both.write_bytes(private + certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return context, certificate


def test_a_certificate_is_checked_against_the_name_and_not_the_address(tmp_path: Path) -> None:
    context, certificate = certified(tmp_path, NAME)
    wanted: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: wanted.append(name)
    with receiving() as receiver:
        receiver.socket = context.wrap_socket(receiver.socket, server_side=True)
        names = Names(["127.0.0.1"], ["127.0.0.1"])
        poster = webhook_poster(
            LOOPBACK, look_up=names, builder=lambda: SyncClientBuilder().add_root_certificate_pem(certificate)
        )
        assert poster(call_to(f"https://{NAME}:{receiver.server_port}/")) == 200
        assert wanted == [NAME]
        with pytest.raises(errors.Unavailable, match=r"(?i)certificate"):
            poster(call_to(f"https://another.test:{receiver.server_port}/"))
