"""Signatures, secrets and addresses of webhooks, and the pauses between attempts."""

from __future__ import annotations

import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante import limits
from restante.errors import InvalidRequest
from restante.model.batches.batch_answers import Webhook
from restante.model.batches.notice import NoticeOutcome, NoticeState, after_attempt, decode_notice, encode_notice
from restante.model.batches.webhook_rules import check_webhook, new_secret, pause_seconds, secret_text, signed_headers

URL = "https://receiver.example/hooks?x=1"
START = 1_790_000_000_000_000
SECOND = 1_000_000
STATE = NoticeState(URL, b"s" * 24, b"{}", next_at=START)


def test_the_signature_is_that_of_the_published_example() -> None:
    """The example of the specification's own libraries."""
    _, secret = check_webhook(Webhook(url=URL, secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), ())
    headers = signed_headers(
        secret=secret,
        webhook_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        at_seconds=1_614_265_330,
        body=b'{"test": 2432232314}',
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@given(st.binary(min_size=24, max_size=64))
def test_a_secret_is_read_as_it_was_told(secret: bytes) -> None:
    assert check_webhook(Webhook(url=URL, secret=secret_text(secret)), ()) == (URL, secret)


def test_without_a_secret_there_are_no_bytes_and_one_that_is_made_is_allowed() -> None:
    assert check_webhook(Webhook(url=URL), ()) == (URL, b"")
    made = new_secret(os.urandom)
    assert check_webhook(Webhook(url=URL, secret=secret_text(made)), ()) == (URL, made)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "whsec_" + base64.b64encode(b"x" * 23).decode(),
        "whsec_" + base64.b64encode(b"x" * 65).decode(),
        base64.b64encode(b"x" * 24).decode(),
        "whsec_" + "é" * 32,
        "whsec_" + "*" * 32,
        "whsec_" + base64.b64encode(b"x" * 25).decode().rstrip("="),
        7,
    ],
)
def test_another_form_of_secret_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(InvalidRequest, match="24 to 64 bytes") as caught:
        check_webhook(Webhook(url=URL, secret=secret), ())
    assert len(str(secret)) < 10 or str(secret) not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "receiver.example",
        "ftp://receiver.example/",
        "http://",
        "http://me:secret@receiver.example/",
        "http://receiver.example/#part",
        "http://receiver.example/a b",
        "http://receiver.example:port/",
        "http://receiver.example/" + "x" * limits.WEBHOOK_URL_CHARACTERS_MAX,
        None,
    ],
)
def test_an_address_that_cannot_be_called_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match=r"webhook\.url"):
        check_webhook(Webhook(url=url), ())


def test_pauses_double_up_to_their_bound_and_chance_takes_at_most_a_half() -> None:
    longest = [pause_seconds(attempts, 0.0) for attempts in range(1, 100)]
    assert longest[:4] == [1, 2, 4, 8]
    assert longest[12:] == [limits.WEBHOOK_PAUSE_SECONDS_MAX] * 87
    assert [pause_seconds(attempts, 1.0) for attempts in range(1, 100)] == [pause / 2 for pause in longest]


def test_a_failed_attempt_is_tried_again_until_it_has_failed_for_long() -> None:
    state, now, failure = STATE, START, NoticeOutcome(problem="answered 503")
    while state.waits:
        state = after_attempt(state, failure, now=now, fraction=0.0)
        assert (state.last_at, state.problem, state.delivered_at) == (now, "answered 503", 0)
        now = max(state.next_at, now + SECOND)
    assert state.given_up_at - START >= limits.WEBHOOK_GIVE_UP_SECONDS * SECOND
    assert state.given_up_at - START < (limits.WEBHOOK_GIVE_UP_SECONDS + limits.WEBHOOK_PAUSE_SECONDS_MAX) * SECOND
    assert (state.next_at, state.first_at) == (0, START)
    assert 50 < state.attempts < 100


def test_a_success_ends_it_and_clears_the_problem() -> None:
    failed = after_attempt(STATE, NoticeOutcome(problem="answered 503"), now=START, fraction=0.5)
    done = after_attempt(failed, NoticeOutcome(), now=START + SECOND, fraction=0.5)
    assert (done.attempts, done.delivered_at, done.problem, done.waits) == (2, START + SECOND, "", False)


def test_what_would_not_help_is_given_up_at_once() -> None:
    state = after_attempt(STATE, NoticeOutcome(problem="answered 410", final=True), now=START, fraction=0.5)
    assert (state.attempts, state.given_up_at, state.waits) == (1, START, False)


def test_a_long_problem_is_cut_and_a_notice_is_read_as_it_was_stored() -> None:
    state = after_attempt(STATE, NoticeOutcome(problem="x" * 10_000), now=START, fraction=0.5)
    assert len(state.problem) == limits.NOTICE_PROBLEM_CHARACTERS_MAX
    assert decode_notice(encode_notice(state)) == state
