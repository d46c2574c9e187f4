"""The calls of those who read along, of the link over HTTP, for programs that wait."""

from __future__ import annotations

from typing import TypeVar

from restante.client import feed_protocol
from restante.client.exchange import Dialogue
from restante.client.options import Terms
from restante.model.feed_answers import EVERYTHING, FeedAnswer, FeedWish, SnapshotAnswer

T = TypeVar("T")


class FeedCalls:
    """The feed and snapshots; whoever inherits it carries the dialogues out."""

    _terms: Terms

    def _run(self, dialogue: Dialogue[T]) -> T:
        """Carry a dialogue out."""
        raise NotImplementedError

    def feed(
        self,
        partition: int,
        *,
        after: int | None = None,
        wish: FeedWish = EVERYTHING,
        limit: int | None = None,
        wait: float = 0,
        reader: str | None = None,
    ) -> FeedAnswer:
        dialogue = feed_protocol.feed(
            self._terms, partition, after=after, wish=wish, limit=limit, wait=wait, reader=reader
        )
        return self._run(dialogue)

    def snapshot(
        self,
        partition: int,
        *,
        after: str | None = None,
        position: int | None = None,
        wish: FeedWish = EVERYTHING,
        limit: int | None = None,
    ) -> SnapshotAnswer:
        dialogue = feed_protocol.snapshot(
            self._terms, partition, after=after, position=position, wish=wish, limit=limit
        )
        return self._run(dialogue)
