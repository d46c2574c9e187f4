"""One attempt to post a webhook, over real sockets."""

from __future__ import annotations

import socket

import pytest

from restante import errors
from restante.ports.webhook import WebhookCall
from restante.webhooks.posting import webhook_poster
from tests.webhooks.receiver import Call, Handler, is_silent, receiving, says


def call_to(url: str) -> WebhookCall:
    return WebhookCall(url=url, body=b'{"a":1}', headers={"content-type": "application/json", "webhook-id": "one"})


def test_the_body_and_the_headers_arrive_as_they_are() -> None:
    with receiving() as receiver:
        assert webhook_poster()(call_to(receiver.url + "?x=1")) == 200
        call = receiver.next()
    assert (call.path, call.body) == ("/completed?x=1", b'{"a":1}')
    assert (call.headers["content-type"], call.webhook_id) == ("application/json", "one")


@pytest.mark.parametrize("status", [204, 400, 410, 503])
def test_the_status_is_given_whatever_it_is(status: int) -> None:
    with receiving() as receiver:
        receiver.answer = says(status)
        assert webhook_poster()(call_to(receiver.url)) == status


def test_redirects_are_not_followed() -> None:
    with receiving() as receiver:
        receiver.answer = says(302, Location=receiver.url + "/elsewhere")
        assert webhook_poster()(call_to(receiver.url)) == 302
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
        assert webhook_poster()(call_to(receiver.url)) == 200


def test_a_receiver_that_does_not_answer_in_time_is_unavailable() -> None:
    with receiving() as receiver:
        receiver.answer = is_silent
        with pytest.raises(errors.Unavailable, match=r"did not answer within 0\.1 s"):
            webhook_poster(seconds=0.1)(call_to(receiver.url))


def test_nobody_there_is_unavailable_and_says_why_without_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(errors.Unavailable) as caught:
        webhook_poster()(call_to(f"http://127.0.0.1:{port}/token-in-the-path"))
    assert "refused" in str(caught.value)
    assert "token-in-the-path" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://%zz/", "http://a.invalid:99/", "nothing"])
def test_an_address_that_leads_nowhere_is_unavailable(url: str) -> None:
    with pytest.raises(errors.Unavailable):
        webhook_poster()(call_to(url))


def test_a_receiver_that_hangs_up_is_unavailable() -> None:
    def hangs_up(handler: Handler, _: Call) -> None:
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True

    with receiving() as receiver:
        receiver.answer = hangs_up
        with pytest.raises(errors.Unavailable, match="could not be reached, or broke off"):
            webhook_poster()(call_to(receiver.url))
