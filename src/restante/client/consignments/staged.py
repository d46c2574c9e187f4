"""The parcels that one program has staged into a consignment: their numbers, and what to announce at the commit.

Numbers count up for each attempt of a writer. A call that failed gives its numbers back, unless another call has taken
later ones meanwhile: so the same call again stages the same parcels under the same numbers, which is harmless. Until then
the attempt is not whole, be it that the hub refused, that no answer came, or that the caller had no more to give. An attempt
that is not whole is not announced unless the caller names it, nor is an earlier attempt announced in its place.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from restante.client.consignments.pieces import Piece, piece_of, pieces_of
from restante.client.surface.arguments import count_of, text_of
from restante.errors import InvalidOperation, InvalidRequest, OutcomeUnknown, RestanteError
from restante.limits import FAULTS_SHOWN_MAX
from restante.model.consignments.consignment_answers import (
    BatchWish,
    ConsignmentDetails,
    ConsignmentOpened,
    ConsignmentState,
    Winner,
)

_LISTED = 5


@dataclass(eq=False)
class _Attempt:
    following: int = 0
    """The number of the next parcel."""
    parcels: dict[int, int] = field(default_factory=dict)
    """How many messages each has that is staged."""
    doubtful: set[int] = field(default_factory=set)
    """Parcels of which nobody knows whether they are staged."""
    failures: int = 0
    """How many calls have failed."""
    mended: int = 0
    """How many of them lie before a call that succeeded."""

    @property
    def is_whole(self) -> bool:
        return not self.doubtful and self.mended == self.failures


class Staging:
    """The parcels that were staged of a consignment; any number of threads, or tasks, may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempts: dict[tuple[str, int], _Attempt] = {}
        self._last: dict[str, int] = {}
        """The attempt that each writer staged last, in the order in which writers first staged."""

    def begin(self, writer: object, attempt: object, parcel: object = None) -> StageCall:
        """A call that stages something. With a number, as one parcel."""
        number = None if parcel is None else count_of("parcel", parcel)
        return StageCall(self, text_of("writer", writer), count_of("attempt", attempt), number)

    def winners(self) -> tuple[Winner, ...]:
        """For each writer, the attempt that it staged last; `InvalidOperation` if that attempt, or a later one, is not whole."""
        with self._lock:
            for (writer, number), attempt in self._attempts.items():
                if not attempt.is_whole and number >= self._last.get(writer, number):
                    raise _not_whole(writer, number)
            return tuple(self._winner(writer, number) for writer, number in self._last.items())

    def _winner(self, writer: str, number: int) -> Winner:
        messages = sum(self._attempts[writer, number].parcels.values())
        return Winner(writer=writer, attempt=number, messages=messages)

    # --- For `StageCall`

    def failures(self, writer: str, attempt: int) -> int:
        """How many calls have failed so far."""
        with self._lock:
            return self._attempts.setdefault((writer, attempt), _Attempt()).failures

    def take_number(self, call: StageCall, given: int | None) -> int | None:
        """The number of a call's next parcel; None, if the call has ended: a thread may still be cutting for it."""
        with self._lock:
            if call.ended:
                return None
            own = self._attempts[call.writer, call.attempt]
            number = own.following if given is None else given
            own.following = max(own.following, number + 1)
            call.numbers.append(number)
            return number

    def set_staged(self, writer: str, attempt: int, number: int, messages: int) -> None:
        with self._lock:
            own = self._attempts[writer, attempt]
            own.parcels[number] = messages
            own.doubtful.discard(number)
            self._last[writer] = attempt

    def set_mended(self, writer: str, attempt: int, failures: int) -> None:
        """A call has succeeded that began after so many had failed."""
        with self._lock:
            own = self._attempts[writer, attempt]
            own.mended = max(own.mended, failures)

    def give_back(self, call: StageCall, error: BaseException) -> None:
        """Note that a call has failed. If its only parcel was refused, it has certainly staged nothing."""
        with self._lock:
            call.ended, numbers = True, call.numbers
            refused = len(numbers) == 1 and _is_refusal(error)
            own = self._attempts[call.writer, call.attempt]
            own.failures += 1
            if numbers and own.following == numbers[-1] + 1 and own.following - numbers[0] == len(numbers):
                own.following = numbers[0]
            if not refused:
                own.doubtful.update(numbers)


class StageCall:
    """One call, to be entered; it ends well, or its attempt is not whole."""

    def __init__(self, staging: Staging, writer: str, attempt: int, parcel: int | None) -> None:
        self.writer = writer
        self.attempt = attempt
        self._staging = staging
        self._parcel = parcel
        self.numbers: list[int] = []
        """The numbers of the parcels that were begun."""
        self.ended = False
        """Whether staging has failed, or was called off."""
        self._failures = staging.failures(writer, attempt)
        """The failures before this call. An attempt that fails meanwhile, in another thread, is not made good by it."""

    def pieces(self, sent: object) -> Iterator[tuple[int, Piece]]:
        """The pieces to be staged, each under its number, cut as they are asked for."""
        pieces = iter((piece_of(sent),)) if self._parcel is not None else pieces_of(sent)
        for piece in pieces:
            number = self._staging.take_number(self, self._parcel)
            if number is None:
                return
            yield number, piece

    def staged(self, number: int, messages: int) -> int:
        self._staging.set_staged(self.writer, self.attempt, number, messages)
        return messages

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._staging.set_mended(self.writer, self.attempt, self._failures)
            return
        self._staging.give_back(self, error)


def check_nobody_else(details: ConsignmentDetails, winners: Iterable[Winner]) -> None:
    """`InvalidOperation`, if others have staged too: whose attempts are not named would be dropped without a word."""
    named = {winner.writer for winner in winners}
    others = list(dict.fromkeys(own.writer for own in details.attempts if own.writer not in named))
    if others:
        listed = ", ".join(map(repr, others[:_LISTED])) + (", …" if len(others) > _LISTED else "")
        found = f"Others have staged into consignment {details.id} too: {listed}. Say which attempts count, theirs included."
        if not named:
            found = (
                f"No attempt is named, and all that {listed} staged into consignment {details.id} would be dropped. Say "
                "which attempts count; to drop all of it, discard the consignment."
            )
        raise InvalidOperation(f"{found} Nothing was committed.", writers=others[:FAULTS_SHOWN_MAX])


def check_batch(opened: ConsignmentOpened, *, batch: bool | BatchWish) -> None:
    """`InvalidOperation`, if a batch was asked for and there is none: the first to open the key did not ask for one."""
    if batch and opened.batch is None:
        remedy = "Open it without a batch."
        if opened.state is ConsignmentState.OPEN:
            remedy = "Open it without a batch; or discard it, and open its key with a batch before anybody else does."
        raise InvalidOperation(
            f"Consignment {opened.id} ({opened.key}) was opened before, without a batch, and the first opening counts. "
            f"{remedy}",
            consignment=opened.id,
        )


class ConsignmentView:
    """The view of a consignment that both surfaces share."""

    def __init__(self, opened: ConsignmentOpened) -> None:
        self.id = opened.id
        self.key = opened.key
        self.batch = opened.batch
        """The id of the batch whose items its messages become, if it was opened with one."""
        self.webhook_secret = opened.webhook_secret
        """The secret that the hub made for the webhook of the batch, if it was just opened so. No other answer has it."""
        self._staging = Staging()

    @property
    def winners(self) -> tuple[Winner, ...]:
        """The attempts that this object would announce at the commit: of each writer the one that was staged last here.

        `InvalidOperation` if the last `stage` of one failed. Writers in other processes hand theirs to the process that commits.
        """
        return self._staging.winners()

    def _announced(self, winners: Iterable[Winner] | None) -> tuple[Winner, ...]:
        if winners is None:
            return self._staging.winners()
        if not isinstance(winners, Iterable):
            raise InvalidRequest(f"winners must be a list of restante.Winner, not {winners!r}.")
        announced = tuple(winners)
        for winner in announced:
            if not isinstance(winner, Winner):
                raise InvalidRequest(f"Each of the winners must be a restante.Winner, not {winner!r}.")
        return announced

    def _described(self, state: ConsignmentState) -> str:
        return f"<Consignment {self.id} {self.key!r}: {state.value}>"


def _is_refusal(error: BaseException) -> bool:
    """Whether the hub, or a rule, has plainly said no."""
    return isinstance(error, RestanteError) and not error.retriable and not isinstance(error, OutcomeUnknown)


def _not_whole(writer: str, attempt: int) -> InvalidOperation:
    return InvalidOperation(
        f"Not all that writer {writer!r} staged in attempt {attempt} has succeeded. Stage the same again, stage all of it in "
        "a higher attempt, or say which attempts count: commit(winners).",
        writer=writer,
        attempt=attempt,
    )
