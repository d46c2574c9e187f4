"""A notice of a completion: the row that is stored of it, and what follows from an attempt to deliver it."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from restante import limits
from restante.decoders import packed_decoder
from restante.model.access.access import NO_OWNER
from restante.model.batches.webhook_rules import pause_seconds

WEBHOOK = "webhook"
NOTIFY = "notify"
NOT_REACHED = (
    "could not be reached: nobody answered in time, or its address is not public and not in webhooks.allowed_networks"
)
"""The only text that is shown about a webhook that gave no answer. The exact reason, which the hub's log has, would show a
stranger what there is in the hub's own network."""
_SECOND = 1_000_000


class NoticeState(msgspec.Struct, frozen=True, array_like=True):
    """A notice and what became of it. Times in microseconds since 1970 UTC; 0 where there is none."""

    target: str
    """The address, or the recipient."""
    secret: bytes
    payload: bytes
    attempts: int = 0
    first_at: int = 0
    last_at: int = 0
    next_at: int = 0
    delivered_at: int = 0
    given_up_at: int = 0
    problem: str = ""
    """The problem of the last attempt, if that failed."""
    owner: bytes = NO_OWNER
    """The owner of the batch."""

    @property
    def waits(self) -> bool:
        """Whether the notice is to be tried, or tried again."""
        return not self.delivered_at and not self.given_up_at


class NoticeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one attempt. Without a problem the notice was delivered."""

    problem: str = ""
    final: bool = False
    """Whether another attempt would not help."""
    reached: bool = True
    """Whether the receiver answered at all."""
    detail: str = ""
    """The text of the hub's log beside the problem, which everybody sees who may see the batch."""


def after_attempt(state: NoticeState, outcome: NoticeOutcome, *, now: int, fraction: float) -> NoticeState:
    """The notice to be stored after an attempt. It is given up when another would not help, or has not for long."""
    attempts, first_at = state.attempts + 1, state.first_at or now
    tried = msgspec.structs.replace(state, attempts=attempts, first_at=first_at, last_at=now, next_at=0)
    if not outcome.problem:
        return msgspec.structs.replace(tried, delivered_at=now, problem="")
    problem = outcome.problem[: limits.NOTICE_PROBLEM_CHARACTERS_MAX]
    if outcome.final or now - first_at >= limits.WEBHOOK_GIVE_UP_SECONDS * _SECOND:
        return msgspec.structs.replace(tried, given_up_at=now, problem=problem)
    pause = round(pause_seconds(attempts, fraction) * _SECOND)
    return msgspec.structs.replace(tried, next_at=now + pause, problem=problem)


class NoticeReceiver(NamedTuple):
    """A receiver of notices, which gets one at a time."""

    owner: bytes
    """The owner of the batches: notices of one owner do not wait for those of another, at the same receiver either."""
    server: str = ""
    """The server elsewhere; empty for a mailbox of this hub."""
    shard: int = 0
    """The shard that has the mailbox."""


def webhook_receiver(state: NoticeState) -> NoticeReceiver:
    parts = urlsplit(state.target)
    return NoticeReceiver(state.owner, f"{parts.scheme}://{parts.netloc.lower()}")


_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(NoticeState)


def encode_notice(state: NoticeState) -> bytes:
    return _encoder.encode(state)


def decode_notice(value: bytes) -> NoticeState:
    return _decoder.decode(value)
