"""The feed and snapshots as dialogues with a hub over HTTP: no input and output here, only what to say."""

from __future__ import annotations

from functools import partial

from restante import limits
from restante.client.answering import expect, feed_of, snapshot_of
from restante.client.exchange import Dialogue, Pairs, Request, Work
from restante.client.options import Terms
from restante.client.requesting import FOR_ARROW, done, given, partition_path
from restante.client.retrying import Answered, answered
from restante.model.feed_answers import EVERYTHING, FeedAnswer, FeedWish, SnapshotAnswer


def feed(
    terms: Terms,
    partition: int,
    *,
    after: int | None = None,
    wish: FeedWish = EVERYTHING,
    limit: int | None = None,
    wait: float = 0,
    reader: str | None = None,
) -> Dialogue[FeedAnswer]:
    """The waiting is done at the hub: the answer comes as soon as there is a change."""
    path = f"{partition_path(partition)}/feed"
    asked = (*given(after=after, limit=limit, reader=reader), *_wished(wish))
    longest = min(max(wait, 0), limits.WAIT_SECONDS_MAX)

    def attempt(elapsed: float) -> Request:
        left = max(longest - elapsed, 0)
        query = (*asked, ("wait", f"{left:.3f}")) if left else asked
        return Request("GET", path, terms.timeout + left, query=query, headers=FOR_ARROW)

    answer: Answered = yield from answered(terms, attempt)
    make = partial(feed_of, expect(answer.response, terms.address, 200), terms.address)
    page: FeedAnswer = make() if len(answer.response.body) <= limits.MIB else (yield Work(make))
    return page


def snapshot(
    terms: Terms,
    partition: int,
    *,
    after: str | None = None,
    position: int | None = None,
    wish: FeedWish = EVERYTHING,
    limit: int | None = None,
) -> Dialogue[SnapshotAnswer]:
    query = (*given(after=after, position=position, limit=limit), *_wished(wish))
    path = f"{partition_path(partition)}/snapshot"
    response = yield from done(terms, Request("GET", path, terms.timeout, query=query, headers=FOR_ARROW), 200)
    make = partial(snapshot_of, response, terms.address)
    page: SnapshotAnswer = make() if len(response.body) <= limits.MIB else (yield Work(make))
    return page


def _wished(wish: FeedWish) -> Pairs:
    return (
        *(("origin", name) for name in wish.origins),
        *(("kind", name) for name in wish.kinds),
        *(("recipient", name) for name in wish.recipients),
        *(("columns", name) for name in wish.columns),
    )
