"""The hub as one of those that count a batch down: its clients, in the workers' processes, at `restante serve`.

Several calls under way are one `acknowledge_each`, which answers each of them, as a pipeline does; eight tasks of the
asynchronous client are sent in one request as well, and cost more of the worker's time. `Gathered` gives the client the ids
of as many calls at once, as a worker has them that many tasks handed over: the client makes one call of them, and there is
one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import restante
from bench.ours_wire import Restante
from bench.tally import Answer, Tally, Worker
from restante.model.batches.batch_answers import Acknowledged

Named = tuple[str, str]
"""A batch: its id, and that of its group."""
ABSENT = 10**11
"""No item has this index: acknowledging it changes nothing."""


class OursWorker(Worker[list[str]]):
    claims: ClassVar[bool] = False

    def __init__(self, url: str) -> None:
        super().__init__()
        self._hub = restante.connect(url)
        self._batch: Any = None
        self._group = ""

    def begin(self, batch: Named) -> None:
        identity, self._group = batch
        self._batch = self._hub.batches.get(identity)

    def warm_up(self, depth: int) -> None:
        """A connection may have been closed since the last sample, as it was idle: the first call of each is made here."""
        self.send([[f"{self._batch.id}:{self._group}:{ABSENT}"]] * depth)

    def encode(self, indices: Sequence[int]) -> list[str]:
        return [f"{self._batch.id}:{self._group}:{index}" for index in indices]

    def send(self, requests: Sequence[list[str]]) -> Sequence[Answer]:
        if len(requests) > 1:
            return [_answer(found) for found in self._hub.batches.acknowledge_each(requests)]
        return [_answer(self._batch.acknowledge(items)) for items in requests]

    def close(self) -> None:
        self._hub.close()


class GatheredWorker(OursWorker):
    def send(self, requests: Sequence[list[str]]) -> Sequence[Answer]:
        found = _answer(self._batch.acknowledge([item for items in requests for item in items]))
        return [found, *(Answer(0, found.complete) for _ in requests[1:])]


class Ours(Tally):
    name = Restante.name
    server = Restante.name
    client: ClassVar[type[OursWorker]] = OursWorker

    def __init__(self, server: Restante) -> None:
        self._url = server.url
        self._hub = restante.connect(server.url)

    def open(self, items: int) -> Named:
        with self._hub.batches.open() as batch:
            (group,) = batch.add(items).groups
        return batch.id, group.id

    def worker(self) -> Callable[[], Worker[Any]]:
        return partial(self.client, self._url)

    def pending(self, batch: Named) -> int:
        return self._hub.batches.get(batch[0]).status().pending

    def completions(self, batch: Named) -> int:
        """The completion, which is recorded once, with its time."""
        return int(self._hub.batches.get(batch[0]).status().completed_at is not None)

    def drop(self, batch: Named) -> None:
        self._hub.batches.get(batch[0]).delete()

    def close(self) -> None:
        self._hub.close()


class Gathered(Ours):
    name = "restante, gathered"
    client = GatheredWorker


def _answer(found: Acknowledged) -> Answer:
    return Answer(found.acknowledged, bool(found.complete))
