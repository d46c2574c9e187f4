"""Those who follow mailboxes of the simulated shards live: what commits bring, history for the rest, and a new line when one ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from uuid import UUID

from restante import Message
from restante.calls.mailboxes import ReadHistory
from restante.client.live.live_inbox import Inbox
from restante.errors import RestanteError
from restante.hub.engine.procedures import Rest
from restante.limits import PAGE_MAX
from restante.model.live.committed_mail import Handed, Mail
from restante.model.live.live_queue import LiveQueue
from restante.model.publishing.message import is_shown
from restante.model.shards.ranges import shard_of
from restante.model.storage.partition import partition_of
from tests.shards.simulated_clients import CHAOS, QUIET, RECIPIENTS, Model, SimulatedClients, Steps, broken_if, name_of
from tests.shards.simulation import PARTITIONS, Owner, World

_ROOM = 1_000_000


class SimulatedLine:
    """A connection to an owner, which listens first, then looks where that is, and replays what came before."""

    def __init__(
        self, owner: Owner, recipient: str, after: int, tell: Callable[[int, int, Message | None], None]
    ) -> None:
        self._owner, self._recipient, self._tell = owner, recipient, tell
        self._queue = LiveQueue(_ROOM, _ROOM, last=2**63 - 1)
        self._arrival = 0.0
        self.cut = False
        self._replaying = False
        """Whether history is to be read: what comes meanwhile is found there."""
        self._listening = ExitStack()
        self._listening.enter_context(owner.hub.pushing(self._take))
        self._queue.last = min(after, owner.hub.visible_sequence(recipient))
        self._send(0, self._queue.last, None)
        self._replay()

    @property
    def over(self) -> bool:
        return self.cut or self._owner.dead

    def close(self) -> None:
        self.cut = True
        self._listening.close()

    def _take(self, mail: Sequence[Mail]) -> None:
        """What a commit brought. While history is read, and of what came without its letters, history has it."""
        for item in mail:
            if self._replaying or not isinstance(item, Handed):
                self._replay()
                return
            for letter, own_id, number in zip(item.letters, item.ids, item.numbers, strict=True):
                if letter.recipient == self._recipient and number > self._queue.last:
                    text, name = letter.data.decode(), str(UUID(bytes=own_id))
                    pushed = Message(recipient=self._recipient, text=text, id=name, sequence_number=number)
                    self._send(self._queue.count(number), number, pushed)

    def _replay(self) -> None:
        if not self._replaying:
            self._replaying = True
            self._owner.world.later(0.01, self._catch_up)

    def _catch_up(self) -> None:
        owner = self._owner
        if owner.asleep_until > owner.world.now:
            owner.world.later(owner.asleep_until - owner.world.now, self._catch_up)
            return
        self._replaying = False
        try:
            page = owner.hub.call(ReadHistory(self._recipient, after=self._queue.last, limit=PAGE_MAX))
        except RestanteError:
            self.cut = True
            return
        for message in page.messages:
            assert message.sequence_number is not None, "a stored message has a number"
            if is_shown(message):
                self._send(self._queue.count(message.sequence_number), message.sequence_number, message)

    def _send(self, counter: int, number: int, message: Message | None) -> None:
        """In order, until the line is cut."""
        world = self._owner.world
        self.cut = self.cut or world.happens(world.losses) or world.are_apart(None, self._owner.shard)
        if not self.over:
            self._arrival = max(self._arrival, world.now + world.random.uniform(0.001, 0.05))
            world.later(self._arrival - world.now, lambda: self._tell(counter, number, message))


class Followers(SimulatedClients):
    """One for some of the mailboxes, each from the beginning."""

    def __init__(self, world: World, model: Model) -> None:
        super().__init__(world, model)
        self._followed = self.random.sample(RECIPIENTS, 2)
        self._seen: dict[str, list[str]] = {name: [] for name in self._followed}
        self._turns: dict[str, int] = {}

    def start(self) -> None:
        for recipient in self._followed:
            self._begin(self._following(recipient))

    def finish(self) -> None:
        for recipient, seen in self._seen.items():
            owner = self.world.owner(self._shard_of(recipient))
            page = owner.hub.call(ReadHistory(recipient, limit=PAGE_MAX))
            wanted = [name_of(message) for message in page.messages if is_shown(message)]
            broken_if(seen != wanted, f"a follower of {recipient} saw {seen}, and the mailbox has {wanted}")

    def _following(self, recipient: str) -> Steps:
        inbox, line, seen = Inbox(0), None, self._seen[recipient]
        while self.world.now < CHAOS + QUIET - 1:
            if line is None or line.over or self.world.happens(5 * self.world.losses):  # Some come and go.
                if line is not None:
                    line.close()
                line = self._connected(recipient, inbox)
            yield Rest(0.5 if self.world.now < CHAOS else 4)
            while isinstance(message := inbox.take(), Message):
                seen.append(name_of(message))

    def _connected(self, recipient: str, inbox: Inbox) -> SimulatedLine | None:
        owner = self.world.reached(self._shard_of(recipient), former=0.5)
        if owner.dead or owner.leaving or owner.asleep_until > self.world.now:
            return None
        turn = self._turns[recipient] = self._turns.get(recipient, 0) + 1

        def told(counter: int, number: int, message: Message | None) -> None:
            if self._turns[recipient] != turn:
                return  # Of a line that has ended, nothing is heard any more.
            if message is not None:
                inbox.put(counter, message, 1)
            else:
                broken_if(inbox.connected(number), f"a follower of {recipient} was sent back to {number}")

        try:
            return SimulatedLine(owner, recipient, inbox.received or 0, told)
        except RestanteError:
            return None

    def _shard_of(self, recipient: str) -> int:
        return shard_of(self.world.ranges(), partition_of(recipient, PARTITIONS))
