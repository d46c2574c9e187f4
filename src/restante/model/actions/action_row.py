"""The rows of actions: what each is and what became of it, where its id is found, its poison, and its texts.

They lie in the partition of the thing that an action concerns. An action's row is found by the hash of that thing and the
number of the action, so those of one thing lie together, in order.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from restante.decoders import packed_decoder
from restante.model.storage.keys import number_key


class ActionState(Enum):
    """The states of an action. The texts are part of the stored format."""

    ACCEPTED = "accepted"
    UNDER_WAY = "under_way"
    DONE = "done"
    POISONED = "poisoned"
    EXPIRED = "expired"
    FAILED = "failed"


FINAL_STATES = frozenset({ActionState.DONE, ActionState.POISONED, ActionState.EXPIRED, ActionState.FAILED})


class ActionRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One action. Until it has an outcome, its state is `accepted`."""

    concerns: str
    origin: str
    id: bytes
    text_id: str
    """The action's id, if that is no UUID; else empty."""
    name: str
    """Empty: it has none."""
    accepted_at: int
    state: ActionState = ActionState.ACCEPTED
    attempts: int = 0
    deaths: int = 0
    begun_at: int = 0
    ended_at: int = 0
    code: str = ""
    """The code of the problem."""
    location: str = ""
    group: str = ""
    """The group that reported the outcome."""
    noted: bool = False
    """Whether a result or the problem's text lies in a row of its own."""

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES


class OutcomeTexts(msgspec.Struct, frozen=True, array_like=True):
    """The texts that go sooner than the state: a result as JSON, and the problem's text."""

    result: bytes = b""
    detail: str = ""


class PoisonRow(msgspec.Struct, frozen=True, array_like=True):
    """An action that could not be done, in the list of its group."""

    recipient_hash: int
    at: int
    member: str
    detail: str = ""


_encoder = msgspec.msgpack.Encoder()
_row_decoder = packed_decoder(ActionRow)
_texts_decoder = packed_decoder(OutcomeTexts)
_poison_decoder = packed_decoder(PoisonRow)


def encode_action(row: ActionRow | OutcomeTexts | PoisonRow) -> bytes:
    return _encoder.encode(row)


def decode_action(value: bytes) -> ActionRow:
    return _row_decoder.decode(value)


def decode_texts(value: bytes) -> OutcomeTexts:
    return _texts_decoder.decode(value)


def decode_poison(value: bytes) -> PoisonRow:
    return _poison_decoder.decode(value)


def action_key(recipient_hash: int, number: int) -> bytes:
    return number_key(recipient_hash) + number_key(number)


def action_id_key(action_id: bytes, recipient_hash: int) -> bytes:
    """The id first: a look-up without the thing finds all that have it."""
    return action_id + number_key(recipient_hash)


def poison_prefix(group: str) -> bytes:
    """No name has a control character in it."""
    return group.encode() + b"\x00"


def poison_key(group: str, number: int) -> bytes:
    return poison_prefix(group) + number_key(number)


def texts_key(ended_at: int, recipient_hash: int, number: int) -> bytes:
    """The key of an action's texts, which begins with the time: the oldest go first."""
    return number_key(ended_at) + action_key(recipient_hash, number)
