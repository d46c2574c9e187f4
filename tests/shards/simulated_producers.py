"""Numbered producers of the simulated shards: the dialogues of the client library, and frames sent ahead without waiting.

Their messages have no ids, so that numbers alone keep them from being stored twice. Now and then a producer of a higher level
takes the group over, while the former one goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from restante import Message
from restante.calls.producers import OpenLink, ReadProducer
from restante.calls.publishing import Publish
from restante.client.producers.configuration import PartitionPublishingConfiguration
from restante.client.producers.lane import Lane
from restante.client.producers.numbered_sends import Prepare, Producing, SendPatience, send
from restante.client.publishing.parcel import Parcel
from restante.client.transport.exchange import Pause
from restante.client.transport.options import Retrying
from restante.errors import InvalidClientState, OutcomeUnknown, ProducerDisconnected, RestanteError, Unavailable
from restante.hub.engine.procedures import Ask, Rest
from restante.model.producers.producer import ProducerNumbers
from restante.ports.carrier import Silent
from tests.shards.simulated_clients import CHAOS, RECIPIENTS, Model, SimulatedClients, Steps, broken_if
from tests.shards.simulation import PARTITIONS, World

_WINDOW = 6
_FRAMES = 24


class NumberedProducers(SimulatedClients):
    """One that waits for each parcel, as the client library does, and one that sends frames ahead."""

    def __init__(self, world: World, model: Model, *, frames: int = _FRAMES) -> None:
        super().__init__(world, model)
        self._frames = self._left = frames
        self._acknowledged: dict[tuple[str, int, int], int] = {}
        """By recipient, group and level, up to which number all is stored."""
        retrying = Retrying(times=3, seconds=5, first_pause=0.1, longest_pause=0.5)
        self._patience = SendPatience(
            retrying=retrying, clock=lambda: world.now, chance=world.random.random, tell=lambda _: None
        )

    def start(self) -> None:
        waiting, ahead = self.random.sample(range(PARTITIONS), 2)
        self._begin(self._waiting(waiting, group=1))
        self._begin(self._ahead(ahead, group=2))

    def finish(self) -> None:
        broken_if(self._left, f"{self._left} frames are not stored")
        for recipient in RECIPIENTS:
            numbered = [_numbers_of(name) for name in self.model.taken[recipient] if name.startswith("n")]
            for group in {own for own, _, _ in numbered}:
                self._check(recipient, group, [(level, number) for own, level, number in numbered if own == group])

    def _check(self, recipient: str, group: int, found: list[tuple[int, int]]) -> None:
        levels = [level for level, _ in found]
        broken_if(levels != sorted(levels), f"a producer of {recipient} stored something after it was taken over")
        for level in sorted(set(levels)):
            numbers = [number for own, number in found if own == level]
            broken_if(
                numbers != list(range(len(numbers))), f"numbers of {recipient} are out of order, or twice: {numbers}"
            )
            known = self._acknowledged.get((recipient, group, level), -1)
            broken_if(known >= len(numbers), f"{recipient} did not get what a producer was told is stored")

    def _message(self, partition: int, group: int, level: int, number: int) -> Message:
        recipient, name = RECIPIENTS[partition], f"n {group} {level} {number}"
        self.model.attempted[recipient].add(name)
        return Message(recipient=recipient, text=name)

    def _note(self, partition: int, group: int, level: int, number: int) -> None:
        place = RECIPIENTS[partition], group, level
        self._acknowledged[place] = max(self._acknowledged.get(place, -1), number)

    # As the client library does it.

    def _waiting(self, partition: int, group: int) -> Steps:
        """One life after the other; each has a higher level, and the one before it does not know."""
        for level in range(self.random.randint(1, 3)):
            if level:
                yield Rest(self.random.uniform(1, 5))
            self._begin(self._life(Lane(partition, PartitionPublishingConfiguration(group, level, None)), level))

    def _life(self, lane: Lane, level: int) -> Steps:
        number = 0
        while self.world.now < CHAOS:
            count = self.random.randint(1, 2)
            messages = [self._message(lane.partition, lane.group or 0, level, number + n) for n in range(count)]
            try:
                yield from self._sending(lane, Parcel.of(messages, lane.partition))
            except ProducerDisconnected:
                return
            number += count
            self._note(lane.partition, lane.group or 0, level, number - 1)
            yield Rest(self.random.uniform(0, 1))

    def _sending(self, lane: Lane, parcel: Parcel) -> Steps:
        """The same parcel until its outcome is known."""
        while True:
            try:
                yield from self._led(send(lane, parcel, self._patience), lane.partition)
            except Unavailable:
                yield Rest(self.random.uniform(0.05, 0.5))
            else:
                return

    def _led(self, dialogue: Producing[object], partition: int) -> Steps:
        reply: object = None
        while True:
            try:
                step = dialogue.send(reply)
            except StopIteration:
                return
            if isinstance(step, Publish | OpenLink | ReadProducer):
                reply = yield from self._reply(Ask(partition, step))
            elif isinstance(step, Prepare):
                reply = step.parcel.sent
            elif isinstance(step, Pause):
                reply = yield Rest(step.seconds)

    def _reply(self, ask: Ask) -> Steps:
        try:
            return (yield ask)
        except Silent as error:
            return OutcomeUnknown(error.message)
        except RestanteError as error:
            return error

    # Frames that are sent ahead.

    def _ahead(self, partition: int, group: int) -> Steps:
        stored = 0
        while stored < self._frames:
            numbers = range(stored, min(stored + _WINDOW, self._frames))
            heard: dict[int, int] = {}
            for number in numbers:
                self.world.start(self._frame(partition, group, number), None, _noted(heard, number), _unheard)
                yield Rest(0.001)
            for _ in self._while_unheard(heard, numbers):
                yield Rest(0.1)
            stored = max([stored, *heard.values()])
            self._left = self._frames - stored
            self._note(partition, group, 0, stored - 1)

    def _while_unheard(self, heard: dict[int, int], numbers: range) -> Iterator[None]:
        """After the time in which a frame is answered, all that were not go again, in order, before anything new."""
        until = self.world.now + 3.5
        while len(heard) < len(numbers) and self.world.now < until:
            yield

    def _frame(self, partition: int, group: int, number: int) -> Steps:
        """Gives up to which number all is stored, as far as the answer says."""
        numbers = ProducerNumbers(group=group, owner_level=0, published_sequence=number)
        message = self._message(partition, group, 0, number)
        try:
            yield Ask(partition, Publish.of([message], partition=partition, producer=numbers))
        except InvalidClientState as error:
            return int(str(error.details["expected"]))  # Who alone has these numbers, knows what was stored before.
        return number + 1


def _noted(heard: dict[int, int], number: int) -> Callable[[object], None]:
    def note(stored: object) -> None:
        assert isinstance(stored, int)
        heard[number] = stored

    return note


def _unheard(_: RestanteError) -> None:
    """It goes again."""


def _numbers_of(name: str) -> tuple[int, int, int]:
    _, group, level, number = name.split()
    return int(group), int(level), int(number)
