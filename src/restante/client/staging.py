"""What one program has staged into a consignment: the numbers of its parcels, and what to announce at the commit.

Numbers count up for each attempt of a writer. A call that failed gives its numbers back, unless another call has taken
later ones meanwhile: so the same call again stages the same parcels under the same numbers, which is harmless. Until then
nobody knows how much of it is staged, and the attempt is in doubt: what is in doubt is not announced by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from restante.client.asking import count_of, text_of
from restante.client.cutting import Piece, piece_of, pieces_of
from restante.errors import InvalidOperation, InvalidRequest, OutcomeUnknown, RestanteError
from restante.limits import FAULTS_SHOWN_MAX
from restante.model.consignment_answers import ConsignmentDetails, ConsignmentOpened, ConsignmentState, Winner

_LISTED = 5


@dataclass(eq=False)
class _Attempt:
    following: int = 0
    """The number of the next parcel."""
    parcels: dict[int, int] = field(default_factory=dict)
    """How many messages each has that is staged."""
    doubtful: set[int] = field(default_factory=set)
    """Parcels of which nobody knows whether they are staged."""


class Staging:
    """For any number of threads, or tasks."""

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
        """Of each writer the attempt that it staged last."""
        with self._lock:
            return tuple(self._winner(writer, attempt) for writer, attempt in self._last.items())

    def _winner(self, writer: str, number: int) -> Winner:
        attempt = self._attempts[writer, number]
        if attempt.doubtful:
            raise InvalidOperation(
                f"Not all that writer {writer!r} staged in attempt {number} has succeeded. Stage the same again, stage all "
                "of it in another attempt, or say which attempts count: commit(winners).",
                writer=writer,
                attempt=number,
            )
        return Winner(writer=writer, attempt=number, messages=sum(attempt.parcels.values()))

    # What follows is for calls.

    def take_number(self, writer: str, attempt: int, given: int | None) -> int:
        with self._lock:
            own = self._attempts.setdefault((writer, attempt), _Attempt())
            number = own.following if given is None else given
            own.following = max(own.following, number + 1)
            return number

    def set_staged(self, writer: str, attempt: int, number: int, messages: int) -> None:
        with self._lock:
            own = self._attempts[writer, attempt]
            own.parcels[number] = messages
            own.doubtful.discard(number)
            self._last[writer] = attempt

    def give_back(self, writer: str, attempt: int, numbers: list[int], *, refused: bool) -> None:
        """A call has failed that took these numbers. Refused, it has staged nothing for sure."""
        with self._lock:
            own = self._attempts[writer, attempt]
            if own.following == numbers[-1] + 1 and own.following - numbers[0] == len(numbers):
                own.following = numbers[0]
            if refused:
                return
            own.doubtful.update(numbers)
            self._last[writer] = attempt


class StageCall:
    """One call, to be entered; it ends well, or all of its numbers are in doubt."""

    def __init__(self, staging: Staging, writer: str, attempt: int, parcel: int | None) -> None:
        self.writer = writer
        self.attempt = attempt
        self._staging = staging
        self._parcel = parcel
        self._numbers: list[int] = []

    def pieces(self, sent: object) -> Iterator[tuple[int, Piece]]:
        """What is to be staged under which number, cut as it is asked for."""
        pieces = iter((piece_of(sent),)) if self._parcel is not None else pieces_of(sent)
        for piece in pieces:
            number = self._staging.take_number(self.writer, self.attempt, self._parcel)
            self._numbers.append(number)
            yield number, piece

    def staged(self, number: int, messages: int) -> int:
        self._staging.set_staged(self.writer, self.attempt, number, messages)
        return messages

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._numbers:
            refused = len(self._numbers) == 1 and _is_refusal(error)
            self._staging.give_back(self.writer, self.attempt, self._numbers, refused=refused)


def check_nobody_else(details: ConsignmentDetails, winners: Iterable[Winner]) -> None:
    """`InvalidOperation`, if others have staged too: whose attempts are not named would be dropped without a word."""
    named = {winner.writer for winner in winners}
    others = list(dict.fromkeys(own.writer for own in details.attempts if own.writer not in named))
    if others:
        listed = ", ".join(map(repr, others[:_LISTED])) + (", …" if len(others) > _LISTED else "")
        raise InvalidOperation(
            f"Others have staged into consignment {details.id} too: {listed}. Nothing was committed. Say which attempts "
            "count, theirs included: commit(winners).",
            writers=others[:FAULTS_SHOWN_MAX],
        )


class ConsignmentView:
    """What both surfaces' consignments show."""

    def __init__(self, opened: ConsignmentOpened) -> None:
        self.id = opened.id
        self.key = opened.key
        self.batch = opened.batch
        """The id of the batch whose items its messages become, if it was opened with one."""
        self.webhook_secret = opened.webhook_secret
        """The secret that the hub made for the webhook of the batch, if it was just opened so. It is told only once."""
        self._staging = Staging()

    @property
    def winners(self) -> tuple[Winner, ...]:
        """What this object would announce at the commit: of each writer the attempt that was staged last here.

        Writers in other processes hand theirs to whoever commits.
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
