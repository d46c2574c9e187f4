"""Origins over HTTP, asked through real sockets: what they deliver, and everything they may do wrong."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

import restante
from bench.server import free_port
from restante import errors, limits
from restante.model.batches.webhook_rules import secret_text
from restante.outside.origins import origin_ports
from restante.ports.content import Content, ContentRequest, DequeuedNotice, OriginPort
from restante.server.serve import start
from restante.settings import OriginSettings, Settings
from tests.cli.places import run

SECONDS = 30.0
"""Longer than anything here takes; a test that waits so long has failed."""

REQUEST = ContentRequest(request_id="r-1", bundle_id="b-1", recipient="ada", format="xml", message_ids=("m-1", "m-2"))
NOTICE = DequeuedNotice(request_id="r-2", bundle_id="b-1", recipient="ada", message_ids=("m-1",))
SECRET = bytes(range(32))

Answer = Callable[["Call"], None]


class Call(BaseHTTPRequestHandler):
    """One call of the hub, answered by the next of the office's answers."""

    protocol_version = "HTTP/1.1"
    server: Office

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, str(self.headers["Content-Type"]), json.loads(body)))
        self.server.calls.append(({name.lower(): value for name, value in self.headers.items()}, body))
        answers = self.server.answers
        try:
            (answers.pop(0) if len(answers) > 1 else answers[0])(self)
        except OSError:
            self.close_connection = True  # The hub hung up, as it may.

    def log_message(self, format: str, *args: object) -> None:
        pass

    def cut(self) -> None:
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True


class Office(ThreadingHTTPServer):
    """An origin. The last of its answers is given for ever."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Call)
        self.answers: list[Answer] = [says(b"")]
        self.asked: list[tuple[str, str, object]] = []
        self.calls: list[tuple[dict[str, str], bytes]] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def settings(self) -> Settings:
        origin = OriginSettings(content_url=f"{self.url}/content", dequeued_url=f"{self.url}/dequeued")
        return Settings(partition_count=1, filing=False, housekeeping_seconds=0, origins={"charges": origin})

    def port(self, *, seconds: float = SECONDS) -> OriginPort:
        return origin_ports(self.settings(), content_seconds=seconds, notice_seconds=seconds)["charges"]


def says(data: bytes, media_type: str | None = "text/xml", status: int = 200, **headers: str) -> Answer:
    def answer(call: Call) -> None:
        call.send_response(status)
        if media_type is not None:
            call.send_header("Content-Type", media_type)
        for name, value in headers.items():
            call.send_header(name.replace("_", "-"), value)
        call.send_header("Content-Length", str(len(data)))
        call.end_headers()
        call.wfile.write(data)

    return answer


def hangs_up(call: Call) -> None:
    call.cut()


def breaks_off(call: Call) -> None:
    call.send_response(200)
    call.send_header("Content-Length", "100")
    call.end_headers()
    call.wfile.write(b"the first of it")
    call.cut()


def is_silent(call: Call) -> None:
    call.server.over.wait(SECONDS)


def trickles(call: Call) -> None:
    """Always a byte more, so that no single read takes long."""
    call.send_response(200)
    call.send_header("Content-Length", "1000000")
    call.end_headers()
    while not call.server.over.wait(0.02):
        call.wfile.write(b"x")


def never_ends(call: Call) -> None:
    call.send_response(200)
    call.send_header("Connection", "close")
    call.end_headers()
    while not call.server.over.is_set():
        call.wfile.write(bytes(limits.MIB))


@pytest.fixture
def office() -> Iterator[Office]:
    with Office() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join(SECONDS)


def fetched(port: OriginPort) -> Content:
    assert port.content is not None
    return port.content(REQUEST)


def tell(port: OriginPort) -> None:
    assert port.dequeued is not None
    port.dequeued(NOTICE)


def refusal(port: OriginPort) -> str:
    with pytest.raises(errors.OriginDidNotDeliver) as caught:
        fetched(port)
    assert caught.value.message.startswith("Origin 'charges' ")
    return caught.value.message.removeprefix("Origin 'charges' ")


def test_content_is_asked_for_in_json_and_comes_with_its_media_type(office: Office) -> None:
    office.answers = [says(b"<prices/>", "text/xml; charset=utf-8")]
    assert fetched(office.port()) == Content(data=b"<prices/>", media_type="text/xml; charset=utf-8")
    asked = {
        "request_id": "r-1",
        "bundle_id": "b-1",
        "recipient": "ada",
        "format": "xml",
        "message_ids": ["m-1", "m-2"],
    }
    assert office.asked == [("/content", "application/json", asked)]


def test_a_notice_is_told_in_json(office: Office) -> None:
    office.answers = [says(b"", status=204)]
    tell(office.port())
    told = {"request_id": "r-2", "bundle_id": "b-1", "recipient": "ada", "message_ids": ["m-1"]}
    assert office.asked == [("/dequeued", "application/json", told)]


def test_only_origins_with_an_address_have_a_port() -> None:
    origins = {
        "inline": OriginSettings(group="x"),
        "content": OriginSettings(content_url="http://localhost/"),
        "told": OriginSettings(dequeued_url="http://localhost/"),
    }
    ports = origin_ports(Settings(origins=origins))
    assert {name: (port.content is not None, port.dequeued is not None) for name, port in ports.items()} == {
        "content": (True, False),
        "told": (False, True),
    }


def test_content_without_a_media_type_is_bytes(office: Office) -> None:
    office.answers = [says(b"x", None)]
    assert fetched(office.port()).media_type == "application/octet-stream"


@pytest.mark.parametrize("media_type", ["nonsense", "text/", "a/b/c", "text/" + "x" * 300])
def test_a_wrong_media_type_is_refused(office: Office, media_type: str) -> None:
    office.answers = [says(b"x", media_type)]
    assert "no media type" in refusal(office.port())
    assert len(office.asked) == 1


@pytest.mark.parametrize("fails", [says(b"", status=500), says(b"", status=503), hangs_up, breaks_off])
def test_what_fails_and_then_works_is_asked_again_under_the_same_request_id(office: Office, fails: Answer) -> None:
    office.answers = [fails, fails, says(b"there")]
    assert fetched(office.port()).data == b"there"
    assert len(office.asked) == 3
    assert office.asked[0] == office.asked[1] == office.asked[2]


@pytest.mark.parametrize(
    ("fails", "why"),
    [
        (says(b"secret inside", status=500), "answered 500"),
        (hangs_up, "could not be reached, or broke off"),
        (breaks_off, "could not be reached, or broke off"),
    ],
)
def test_three_failures_are_enough(office: Office, fails: Answer, why: str) -> None:
    office.answers = [fails]
    message = refusal(office.port())
    assert message.startswith(why)
    assert message.endswith("(asked 3 times).")
    assert "secret" not in message
    assert len(office.asked) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 409, 429])
def test_what_the_origin_refuses_is_not_asked_again(office: Office, status: int) -> None:
    office.answers = [says(b"", status=status)]
    assert refusal(office.port()) == f"answered {status}."
    assert len(office.asked) == 1


@pytest.mark.parametrize("target", ["file:///etc/passwd", "/elsewhere", "https://files.example/"])
def test_redirects_are_not_followed(office: Office, target: str) -> None:
    office.answers = [says(b"", status=302, Location=target), says(b"followed")]
    assert "redirects are not followed" in refusal(office.port())
    assert len(office.asked) == 1


def test_the_largest_content_comes_whole_and_one_byte_more_is_refused(office: Office) -> None:
    office.answers = [says(bytes(limits.CONTENT_BYTES_MAX)), says(bytes(limits.CONTENT_BYTES_MAX + 1))]
    port = office.port()
    assert len(fetched(port).data) == limits.CONTENT_BYTES_MAX
    assert "more than 52,428,800 bytes" in refusal(port)


def test_content_without_end_is_given_up_at_the_limit(office: Office) -> None:
    office.answers = [never_ends]
    assert "more than 52,428,800 bytes" in refusal(office.port())


def test_content_that_unpacks_to_too_much_is_refused(office: Office) -> None:
    office.answers = [says(gzip.compress(bytes(limits.CONTENT_BYTES_MAX + 1), 1), Content_Encoding="gzip")]
    assert "more than 52,428,800 bytes" in refusal(office.port())


@pytest.mark.parametrize("slow", [is_silent, trickles])
def test_all_of_a_call_happens_within_its_time(office: Office, slow: Answer) -> None:
    office.answers = [slow]
    assert refusal(office.port(seconds=0.3)) == "did not answer within 0.3 s."
    assert len(office.asked) == 1


def test_tries_share_the_time_of_the_call(office: Office) -> None:
    office.answers = [says(b"", status=500), is_silent]
    assert refusal(office.port(seconds=1.5)) == "did not answer within 1.5 s."
    assert len(office.asked) == 2


def test_an_origin_that_is_not_there_is_an_error_that_says_so() -> None:
    url = f"http://127.0.0.1:{free_port()}/"
    ports = origin_ports(Settings(origins={"charges": OriginSettings(content_url=url, dequeued_url=url)}))
    message = refusal(ports["charges"])
    assert "Connection refused" in message
    assert url not in message
    with pytest.raises(errors.OriginDidNotDeliver, match="Connection refused"):
        tell(ports["charges"])


@pytest.mark.parametrize("fails", [says(b"", status=500), says(b"", status=404), says(b"", status=302), hangs_up])
def test_a_notice_that_is_not_taken_is_an_error_and_tried_once(office: Office, fails: Answer) -> None:
    office.answers = [fails]
    with pytest.raises(errors.OriginDidNotDeliver):
        tell(office.port())
    assert len(office.asked) == 1


def test_a_silent_origin_holds_a_notice_no_longer_than_its_time(office: Office) -> None:
    office.answers = [is_silent]
    with pytest.raises(errors.OriginDidNotDeliver, match=r"did not answer within 0\.2 s"):
        tell(office.port(seconds=0.2))


def test_calls_at_once_do_not_wait_for_one_another(office: Office) -> None:
    meeting = threading.Barrier(8, timeout=SECONDS)

    def meet(call: Call) -> None:
        meeting.wait()
        says(b"met")(call)

    office.answers = [meet]
    port, found = office.port(), []
    threads = [threading.Thread(target=lambda: found.append(fetched(port).data)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert found == [b"met"] * 8


def test_a_hub_collects_content_over_http_and_tells_the_origin(office: Office, tmp_path: Path) -> None:
    told = threading.Event()

    def take(call: Call) -> None:
        says(b"", status=204)(call)
        told.set()

    office.answers = [says(b"", status=404), says(b"content"), says(b"", status=500), take]
    settings = office.settings()
    with restante.open(tmp_path, settings=settings, origins=origin_ports(settings)) as hub:
        hub.producer.send(restante.Message(recipient="ada", origin="charges"))
        with pytest.raises(errors.OriginDidNotDeliver, match=r"'charges' answered 404\. Peek again\.$"):
            hub.recipient("ada").peek()
        bundle = hub.recipient("ada").peek()
        assert bundle is not None
        assert (bundle.content, bundle.media_type) == (b"content", "text/xml")
        bundle.dequeue()
        assert told.wait(SECONDS)
    paths = [path for path, _, _ in office.asked]
    assert paths == ["/content", "/content", "/dequeued", "/dequeued"]
    assert office.asked[0] == office.asked[1]
    assert office.asked[2] == office.asked[3]


@pytest.mark.parametrize("name", ["http_proxy", "all_proxy"])
def test_origins_are_called_past_the_proxies_of_the_environment(
    office: Office, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with Office() as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.setenv(name, proxy.url)
        office.answers = [says(b"content")]
        port = office.port()
        assert fetched(port).data == b"content"
        tell(port)
        proxy.shutdown()
    assert (len(office.asked), proxy.asked) == (2, [])


def test_a_hub_closes_although_an_origin_is_silent(office: Office, tmp_path: Path) -> None:
    asked, ended = threading.Event(), threading.Event()

    def hang(call: Call) -> None:
        asked.set()
        is_silent(call)
        ended.set()

    office.answers = [hang]
    settings = office.settings()
    with restante.open(tmp_path, settings=settings, origins=origin_ports(settings)) as hub:
        hub.producer.send(restante.Message(recipient="ada", origin="charges", data=1))
        bundle = hub.recipient("ada").peek()
        assert bundle is not None
        bundle.dequeue()
        assert asked.wait(SECONDS)
    assert not ended.is_set()


def test_every_call_is_signed_under_its_request_id_each_try_with_its_time(office: Office) -> None:
    office.answers = [says(b"", status=503), says(b"<x/>")]
    port = origin_ports(office.settings(), SECRET)["charges"]
    assert port.content is not None
    assert port.dequeued is not None
    port.content(REQUEST)
    port.dequeued(NOTICE)
    assert [headers["webhook-id"] for headers, _ in office.calls] == ["r-1", "r-1", "r-2"]
    for headers, body in office.calls:
        assert Webhook(secret_text(SECRET)).verify(body, headers) == json.loads(body)
        with pytest.raises(WebhookVerificationError):
            Webhook(secret_text(SECRET)).verify(body + b" ", headers)


def test_a_secret_of_the_origins_own_goes_before_the_hubs(office: Office) -> None:
    own = secret_text(bytes(range(40)))
    settings = office.settings()
    settings.origins["charges"] = msgspec.structs.replace(settings.origins["charges"], secret=own)
    port = origin_ports(settings, SECRET)["charges"]
    assert port.dequeued is not None
    port.dequeued(NOTICE)
    ((headers, body),) = office.calls
    assert Webhook(own).verify(body, headers) == json.loads(body)


def test_a_served_hub_signs_with_the_secret_that_the_command_shows(office: Office, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    office.answers = [says(b"<x/>")]
    with start(folder, office.settings()) as running, restante.connect(running.url) as hub:
        hub.producer.send(restante.Message(recipient="ada", origin="charges"))
        assert hub.recipient("ada").peek() is not None
    shown = run("origins", "secret", "--data", str(folder))
    assert shown.exit_code == 0
    ((headers, body),) = office.calls
    assert Webhook(shown.stdout.strip()).verify(body, headers) == json.loads(body)
    assert (folder / "origins.secret").stat().st_mode & 0o777 == 0o600
    assert run("origins", "secret", "--data", str(folder)).stdout == shown.stdout, "it stays"


def test_a_hub_without_origins_to_call_makes_no_secret(tmp_path: Path) -> None:
    with start(tmp_path / "data", restante.Settings(partition_count=1)):
        assert not (tmp_path / "data" / "origins.secret").exists()
    missing = run("origins", "secret", "--data", str(tmp_path / "elsewhere"))
    assert (missing.exit_code, "There is no folder" in missing.stderr) == (1, True)
    (tmp_path / "data" / "origins.secret").write_text("open sesame")
    assert "error data_damaged" in run("origins", "secret", "--data", str(tmp_path / "data")).stderr
