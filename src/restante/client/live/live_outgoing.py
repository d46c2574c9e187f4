"""`Outgoing`: the unanswered sends and acknowledgements of a live connection.

A message gets its id before it is sent, so it can be sent again over the next connection and is stored once. A `collected`
has no request number, so only one is under way at a time. A problem that names no request is its answer, unless the problem
names another sequence number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from restante.errors import InvalidRequest, OutcomeUnknown, RestanteError, Unavailable
from restante.limits import LIVE_SENDS_MAX
from restante.model.publishing.message import Message
from restante.wire.live import Collected, Fate, SendAccepted
from restante.wire.problems import CODES, error_of


class Promise(Protocol):
    """A future of threads or of an event loop."""

    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...  # noqa: ANN401 - the futures' own signature
    def set_exception(self, exception: BaseException, /) -> None: ...
    def exception(self) -> BaseException | None: ...


P = TypeVar("P", bound=Promise)


@dataclass(slots=True)
class OutgoingItem(Generic[P]):
    """A message to be sent, or the confirmation that all messages up to a number are collected."""

    said: Message | int
    promise: P
    request: int
    line: int = 0
    """The number of the connection over which the item was last sent; 0 before."""


class Outgoing(Generic[P]):
    """The unanswered items, by request number."""

    def __init__(self) -> None:
        self._requests = count(1)
        self._letters: dict[int, OutgoingItem[P]] = {}
        self._by_id: dict[str, int] = {}
        self._collecting: int | None = None

    @property
    def has_room(self) -> bool:
        return len(self._letters) < LIVE_SENDS_MAX

    @property
    def can_collect(self) -> bool:
        return self._collecting is None

    def send(self, message: Message, promise: P) -> OutgoingItem[P]:
        assert message.id is not None, "it was given an id"
        if message.id.lower() in self._by_id:
            raise InvalidRequest(f"A message with the id {message.id} is under way already.")
        letter = self._add(message, promise)
        self._by_id[message.id.lower()] = letter.request
        return letter

    def collect(self, number: int, promise: P) -> OutgoingItem[P]:
        assert self.can_collect, "a caller waits for its turn"
        letter = self._add(number, promise)
        self._collecting = letter.request
        return letter

    def unsaid(self, line: int) -> OutgoingItem[P] | None:
        """The first item that was not sent over this connection. It counts as sent from now on."""
        for letter in self._letters.values():
            if letter.line != line:
                letter.line = line
                return letter
        return None

    def is_own(self, message: Message) -> bool:
        """Whether a message is an unanswered one of ours. Sent over an earlier connection, it may come back to us as an echo."""
        return message.id is not None and message.id.lower() in self._by_id

    def hear(self, word: Fate | Collected | SendAccepted | Mapping[str, Any]) -> None:
        """Settle the item that an answer of the hub concerns: give its promise the result or the error."""
        if isinstance(word, Fate):
            self._fate(word)
        elif isinstance(word, Collected):
            self._collected(word)
        elif not isinstance(word, SendAccepted):
            self._problem(word)

    def forget(self, letter: OutgoingItem[P]) -> None:
        """Forget an item, because no caller waits for its answer any more."""
        self._letters.pop(letter.request, None)
        if self._collecting == letter.request:
            self._collecting = None

    def end(self, why: str) -> None:
        for request in list(self._letters):
            self._answer(
                request, OutcomeUnknown(f"The live connection has ended: {why}. It may have been carried out.")
            )

    def _fate(self, fate: Fate) -> None:
        request = self._by_id.get(fate.id.lower())
        if request is None:
            return
        if fate.status == "processed":
            self._answer(request, None)
        else:
            self._answer(request, _why_lost(fate))

    def _collected(self, answer: Collected) -> None:
        letter = None if self._collecting is None else self._letters[self._collecting]
        if letter is not None and letter.said == answer.sequence_number:
            self._answer(letter.request, answer.messages)

    def _problem(self, problem: Mapping[str, Any]) -> None:
        request = problem["request"] if "request" in problem else self._collect_refused(problem)
        if isinstance(request, int):
            told = {name: value for name, value in problem.items() if name not in ("request", "sequence_number")}
            self._answer(request, error_of(told))

    def _collect_refused(self, problem: Mapping[str, Any]) -> int | None:
        letter = None if self._collecting is None else self._letters[self._collecting]
        if letter is None or problem.get("sequence_number", letter.said) != letter.said:
            return None
        return letter.request

    def _add(self, said: Message | int, promise: P) -> OutgoingItem[P]:
        letter = OutgoingItem(said, promise, next(self._requests))
        self._letters[letter.request] = letter
        return letter

    def _answer(self, request: int, outcome: int | RestanteError | None) -> None:
        letter = self._letters.pop(request, None)
        if letter is None:
            return
        if isinstance(letter.said, Message):
            self._by_id.pop((letter.said.id or "").lower(), None)
        else:
            self._collecting = None
        if letter.promise.done():
            return
        if isinstance(outcome, RestanteError):
            letter.promise.set_exception(outcome)
            # Mark the exception as retrieved, so that nothing is logged if the caller never calls `processed`.
            letter.promise.exception()
        else:
            letter.promise.set_result(outcome)


def _why_lost(fate: Fate) -> RestanteError:
    """The error that the hub names, or else `Unavailable`."""
    code, _, message = (fate.reason or "").partition(": ")
    if code in CODES:
        return error_of({"code": code, "detail": message or code, "id": fate.id})
    return Unavailable(f"The message {fate.id} was lost: {fate.reason or 'the hub gave no reason'}.", id=fate.id)
