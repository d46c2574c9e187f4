"""Load on several nodes, and what must be true of it afterwards, whatever happened to them meanwhile.

All insist until they are answered, as the clients of a hub do: publishers and collectors, batches of bound messages, consignments
that are committed or discarded, and followers of mailboxes. What they were told, and in which order, is noted.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import restante
from restante.client.surface.sync import Hub
from restante.errors import BundleUnknown, RestanteError
from restante.model.publishing.message import Message
from tests.server.wire import Answer, Wire
from tests.waiting import wait_until

T = TypeVar("T")

_ANSWER_SECONDS = 6.0
_RETRIABLE = (421, 429, 500, 502, 503)


class Insistent(threading.Thread):
    """Does something over and over, in a thread of its own, until it is told to end."""

    pause = 0.0
    """Seconds between: campaigns run beside each other, and what only loads the machine finds nothing."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.address = address
        self.done = 0
        self.failure: BaseException | None = None
        self.ending = threading.Event()

    def run(self) -> None:
        try:
            with restante.connect(self.address, timeout=_ANSWER_SECONDS, retries=0) as hub:
                while not self.ending.wait(self.pause):
                    self.once(hub)
                    self.done += 1
        except BaseException as error:  # noqa: BLE001  # handed to the test, whatever it is
            self.failure = error

    def once(self, hub: Hub) -> None:
        raise NotImplementedError

    def answered(self, deed: Callable[[], T]) -> T:
        """Repeat what was not answered, or only with an error that says so."""
        while True:
            try:
                return deed()
            except RestanteError as error:
                if not error.retriable:
                    raise
                time.sleep(0.02)

    def finish(self) -> None:
        self.ending.set()
        self.join(120)
        assert not self.is_alive(), f"{self.name} does not end"
        if self.failure is not None:
            raise self.failure


class Publisher(Insistent):
    """One message after the other to one recipient."""

    pause = 0.02

    def __init__(self, address: str, recipient: str) -> None:
        super().__init__(address)
        self.recipient = recipient
        self.acknowledged: list[str] = []

    def once(self, hub: Hub) -> None:
        message = Message(recipient=self.recipient, id=f"{self.recipient}-{self.done}", text="text")
        self.answered(lambda: hub.producer.send([message]))
        self.acknowledged.append(message.id or "")


class Collector(Insistent):
    """Collects all that one recipient gets."""

    def __init__(self, address: str, recipient: str) -> None:
        super().__init__(address)
        self.recipient = recipient
        self.collected: list[str] = []
        self.taken: set[str] = set()
        """What somebody began to dequeue."""

    def once(self, hub: Hub) -> None:
        self.collect(hub, wait=0.5)

    def collect(self, hub: Hub, wait: float) -> bool:
        bundle = self.answered(lambda: hub.recipient(self.recipient).peek(wait=wait))
        if bundle is None:
            return False
        names = [message.id or "" for message in bundle.messages]
        self.taken.update(names)
        try:
            self.answered(bundle.dequeue)
        except BundleUnknown as error:
            if "dequeued_at" not in error.details:  # an attempt that was not answered, and carried out
                raise
        self.collected += names
        return True

    def rest(self) -> None:
        with restante.connect(self.address, timeout=_ANSWER_SECONDS, retries=0) as hub:
            while self.collect(hub, wait=0):
                pass


class Follower(Insistent):
    """Follows a mailbox live, from its beginning."""

    def __init__(self, address: str, recipient: str) -> None:
        super().__init__(address)
        self.recipient = recipient
        self.seen: list[str] = []
        self._after = 0

    def once(self, hub: Hub) -> None:
        """Where nobody has answered yet, a client gives up after a while: this one goes on."""
        self.answered(lambda: self._follow(hub))

    def _follow(self, hub: Hub) -> None:
        for message in hub.recipient(self.recipient).live(after=self._after):
            self.seen.append(message.id or "")
            self._after = message.sequence_number or 0
            if message.id == f"{self.recipient}-end":
                self.ending.set()
            if self.ending.is_set():
                return


class Requester(Insistent):
    """Speaks HTTP with any node that answers."""

    _turn = 0

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        urls = self.address.split(",")
        while True:
            with suppress(OSError, Exception):
                wire = Wire(urls[self._turn % len(urls)])
                wire._connection.timeout = _ANSWER_SECONDS
                answer = wire(method, path, body, headers=headers)
                wire.close()
                if answer.status not in _RETRIABLE:
                    return answer
            self._turn += 1
            time.sleep(0.02)


class BatchMaker(Requester):
    """Batches of bound messages, one after the other; each must complete once, and not before all is collected."""

    def __init__(self, address: str, collectors: list[Collector], notified: str) -> None:
        super().__init__(address)
        self._collectors = collectors
        self._notified = notified
        self.complete: list[str] = []

    def once(self, hub: Hub) -> None:
        del hub
        key = f"batch-{self.done}"
        batch = self.ask("POST", "/v1/batches", {"key": key, "notify": self._notified}).json()["id"]
        sent = [(own, f"{key}-{own.recipient}") for own in self._collectors]
        body = {"messages": [{"recipient": own.recipient, "id": name, "data": key} for own, name in sent]}
        published = self.ask("POST", "/v1/messages", body, **{"restante-batch": batch})
        assert published.status in (200, 201), published
        assert self.ask("POST", f"/v1/batches/{batch}/seal").status == 200
        while not self.ending.is_set():
            status: Any = self.ask("GET", f"/v1/batches/{batch}").json()
            if status["state"] == "complete":
                assert all(name in own.taken for own, name in sent), f"{key} is complete too early"
                assert status["items"] == len(sent)
                self.complete.append(key)
                return
            time.sleep(0.05)


class Consigner(Requester):
    """Consignments: most are committed, some discarded."""

    def __init__(self, address: str, recipients: list[str]) -> None:
        super().__init__(address)
        self._recipients = recipients
        self.committed: list[list[str]] = []
        self.discarded: list[list[str]] = []

    def once(self, hub: Hub) -> None:
        del hub
        key = f"night-{self.done}"
        opened = self.ask("POST", "/v1/consignments", {"key": key}).json()
        place, names = f"/v1/consignments/{opened['id']}", [f"{key}-{name}" for name in self._recipients]
        body = [
            {"recipient": recipient, "id": name, "data": key}
            for recipient, name in zip(self._recipients, names, strict=True)
        ]
        staged = self.ask("POST", f"{place}/parcels?writer=w&attempt=0&parcel=0", body)
        assert staged.status in (200, 201), staged
        if self.done % 3 == 2:
            assert self.ask("DELETE", place).status in (200, 204, 404)
            self.discarded.append(names)
            return
        counted = {"writers": [{"writer": "w", "attempt": 0, "messages": len(names)}]}
        committed = self.ask("POST", f"{place}/commit", counted)
        assert committed.status == 200, committed
        self.committed.append(names)


class Prober(Requester):
    """Asks for one mailbox over and over, and notes for how long nobody answered at most."""

    def __init__(self, address: str, recipient: str) -> None:
        super().__init__(address)
        self._recipient = recipient
        self._last = time.monotonic()
        self.longest = 0.0

    def once(self, hub: Hub) -> None:
        del hub
        self.ask("GET", f"/v1/recipients/{self._recipient}/peek")
        now = time.monotonic()
        self.longest, self._last = max(self.longest, now - self._last), now
        time.sleep(0.01)

    def take_longest(self) -> float:
        found, self.longest = self.longest, 0.0
        return found


class NodeLoad:
    """All of them together."""

    def __init__(self, address: str, lines: int = 4, bound: int = 4) -> None:
        names = [f"line-{number}" for number in range(lines)]
        self.publishers = [Publisher(address, name) for name in names]
        self.collectors = [Collector(address, name) for name in names]
        self.followers = [Follower(address, name) for name in names[:2]]
        self.bound = [Collector(address, f"bound-{number}") for number in range(bound)]
        self.notices = Collector(address, "notices")
        self.batches = BatchMaker(address, self.bound, "notices")
        self.consigner = Consigner(address, [own.recipient for own in self.bound])
        self.everybody: list[Insistent] = [
            *(*self.publishers, *self.collectors, *self.followers, *self.bound),
            *(self.notices, self.batches, self.consigner),
        ]
        for own in self.everybody:
            own.start()

    def wait_for_more(self, count: int = 3) -> None:
        """Until all publishers, batches and consignments have come on by so many."""
        movers: list[Insistent] = [*self.publishers, self.batches, self.consigner]
        wanted = [own.done + count for own in movers]

        def have_come_on() -> bool:
            for own in self.everybody:
                if own.failure is not None:
                    raise own.failure
            return all(own.done >= least for own, least in zip(movers, wanted, strict=True))

        wait_until(have_come_on, f"{[type(own).__name__ for own in movers]} have come on by {count}")

    def end(self) -> None:
        """Whatever became of it: no thread stays."""
        for own in self.everybody:
            own.ending.set()
        for own in self.everybody:
            own.join(30)

    def finish(self) -> None:
        """End everything, and check what was promised."""
        for own in (*self.publishers, self.batches, self.consigner):
            own.finish()
        address = self.publishers[0].address
        with restante.connect(address) as hub:
            for follower in self.followers:
                end = Message(recipient=follower.recipient, id=f"{follower.recipient}-end", text="end")
                hub.producer.send([end])
        for follower in self.followers:
            follower.join(60)
            assert follower.failure is None
        for collector in (*self.collectors, *self.bound, self.notices):
            collector.finish()
            collector.rest()
        self._check()

    def _check(self) -> None:
        for publisher, collector in zip(self.publishers, self.collectors, strict=True):
            found = [name for name in collector.collected if not name.endswith("-end")]
            assert found == publisher.acknowledged, f"{publisher.recipient}: once, and in order"
        for follower in self.followers:
            (publisher,) = (own for own in self.publishers if own.recipient == follower.recipient)
            assert follower.seen[:-1] == publisher.acknowledged, "live clients saw everything"
        counts = Counter(name for own in self.bound for name in own.collected)
        assert max(counts.values(), default=1) == 1, "nothing comes twice"
        for names in self.consigner.committed:
            assert all(name in counts for name in names), "a consignment that was committed is whole"
        for names in self.consigner.discarded:
            assert not any(name in counts for name in names), "a consignment that was discarded is absent"
        for key in self.batches.complete:
            assert all(f"{key}-{own.recipient}" in counts for own in self.bound)
        assert len(self.notices.collected) == len(set(self.notices.collected))
        assert len(self.notices.collected) in range(len(self.batches.complete), self.batches.done + 2)
