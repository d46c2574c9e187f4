"""A hub that is not there: it is said within a second, with the cause, and again when it answers."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import restante
import restante.aio
from bench.server import free_port
from restante import Message, errors
from restante.calls.mailboxes import ListPartitions
from restante.client.transport import protocol
from restante.client.transport.address import address_of
from restante.client.transport.exchange import Failure, Response
from restante.client.transport.http_carrier_sync import HttpCarrier
from restante.client.transport.options import Retrying
from restante.client.transport.unreachable import unreachable
from restante.server.serve import ServedHub, start
from tests.client.conftest import SETTINGS
from tests.client.talking import Conversation

NONE = Response(200, {"content-type": "application/json"}, memoryview(b'{"partitions": [], "next": null}'))


@pytest.fixture
def silent() -> Iterator[str]:
    """A port whose queue is full: it takes no connection, and refuses none."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        crowd = []
        for _ in range(8):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
            crowd.append(one)
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        for one in crowd:
            one.close()


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("Connection refused (os error 111)", "Nothing answers at https://hub.test:1: Connection refused"),
        ("failed to lookup address information: Name or service not known", "The name hub.test is unknown"),
        ("[Errno -2] Name or service not known", "The name hub.test is unknown"),
        ("received corrupt message of type InvalidContentType", "does not speak HTTPS"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "does not speak HTTPS"),
        ("invalid peer certificate: UnknownIssuer", "The certificate of https://hub.test:1 is not trusted"),
    ],
)
def test_the_causes_are_told_apart(reason: str, told: str) -> None:
    assert told in unreachable(address_of("https://hub.test:1"), reason).message


def test_https_on_http_is_known(running: ServedHub) -> None:
    wrong = running.url.replace("http://", "https://")
    with restante.connect(wrong, retries=0) as hub, pytest.raises(errors.Unavailable, match=r"speak HTTPS.*http://127"):
        hub.partitions()
    with restante.connect(wrong, retries=0) as hub, pytest.raises(errors.Unavailable, match="does not speak HTTPS"):
        next(iter(hub.recipient("ada").live()))


def test_an_unknown_name_is_known() -> None:
    told = pytest.raises(errors.Unavailable, match=r"The name no-such-hub\.invalid is unknown")
    with restante.connect("no-such-hub.invalid:8470", retries=0) as hub, told:
        hub.partitions()


def test_a_certificate_that_is_not_trusted_is_known(tmp_path: Path) -> None:
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key", "-out", "cert", "-days", "1"]
    subprocess.run([*made, "-subj", "/CN=localhost"], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        try:
            context.wrap_socket(connection, server_side=True)
        except OSError:
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        url = f"https://localhost:{listener.getsockname()[1]}"
        with restante.connect(url, retries=0) as hub, pytest.raises(errors.Unavailable, match="is not trusted"):
            hub.partitions()
        thread.join()


def test_a_hub_that_is_not_there_is_said_before_it_is_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[int] = []
    monkeypatch.setattr(HttpCarrier, "_pause", lambda *_: said.append(len(caplog.records)))
    patience = restante.Retrying(times=2)
    with restante.connect(f"127.0.0.1:{free_port()}", retries=patience) as hub, pytest.raises(errors.Unavailable):
        hub.partitions()
    assert [record.name for record in caplog.records] == ["restante.client"]
    assert "is `restante serve` running there? Trying again, up to 2 times" in caplog.messages[0]
    assert said == [1, 1]


def test_a_network_that_says_nothing_is_said_too(silent: str, caplog: pytest.LogCaptureFixture) -> None:
    with restante.connect(silent, retries=0, timeout=1.5) as hub, pytest.raises(errors.Unavailable):
        hub.partitions()
    assert [message for message in caplog.messages if "no connection yet" in message and "Still trying" in message]


def test_asynchronous_programs_hear_it_too(silent: str, caplog: pytest.LogCaptureFixture) -> None:
    async def ask() -> None:
        async with restante.aio.connect(silent, retries=0, timeout=1.5) as hub:
            await hub.partitions()

    with pytest.raises(errors.Unavailable):
        asyncio.run(ask())
    assert any("no connection yet" in message for message in caplog.messages)


def test_a_hub_that_takes_its_time_is_not_suspected(running: ServedHub, caplog: pytest.LogCaptureFixture) -> None:
    with restante.connect(running.url) as hub:
        assert hub.recipient("nobody").peek(wait=1.2) is None
    assert not caplog.messages


def test_it_is_said_when_the_hub_answers_again() -> None:
    conversation = Conversation([Failure("refused", reached=False), Failure("refused", reached=False), NONE])
    conversation.lead(protocol.partitions(conversation.terms, ListPartitions()))
    first, last = conversation.words
    assert first.startswith("Nothing answers at http://hub.test:8470: refused")
    assert last == "The hub at http://hub.test:8470 answers again."


def test_without_patience_the_error_alone_speaks() -> None:
    conversation = Conversation([Failure("refused", reached=False)], Retrying(times=0))
    with pytest.raises(errors.Unavailable):
        conversation.lead(protocol.partitions(conversation.terms, ListPartitions()))
    assert not conversation.words


def test_a_producer_and_a_live_connection_say_it_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "restante.client")
    url = f"http://127.0.0.1:{free_port()}"
    producer = restante.ProducerClient(url, retry_total=1, retry_backoff_factor=0.01)
    with producer, pytest.raises(errors.Unavailable):
        producer.send_messages(Message(recipient="ada", text="x"), partition=0)
    assert any("Trying again, for up to" in message for message in caplog.messages)
    caplog.clear()
    with restante.connect(url, retries=1) as hub, pytest.raises(errors.Unavailable):
        next(iter(hub.recipient("ada").live()))
    assert any("The live connection is lost: Nothing answers" in message for message in caplog.messages)


def test_a_hub_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    """The command says a line on standard error, and is answered when the hub is there."""
    port = free_port()
    command = [sys.executable, "-m", "restante", "recipients", "--hub", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asking:
        assert asking.stderr is not None
        said = asking.stderr.readline()
        assert said.startswith(f"Nothing answers at http://127.0.0.1:{port}")
        assert "Trying again" in said
        with start(tmp_path / "data", SETTINGS, port=port):
            out, err = asking.communicate(timeout=30)
    assert asking.returncode == 0, err
    assert "answers again" in err
    assert out
