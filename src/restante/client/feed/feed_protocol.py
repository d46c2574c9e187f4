"""The feed and snapshots as dialogues with a hub over HTTP: no input and output here, only what to say."""

from __future__ import annotations

from functools import partial

from restante import limits
from restante.calls.call import query_of
from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.client.transport.column_answers import feed_of, snapshot_of
from restante.client.transport.exchange import Dialogue, HttpRequest, LongWork, Pairs
from restante.client.transport.http_answers import expect
from restante.client.transport.options import Terms
from restante.client.transport.requests import FOR_ARROW, Dialogues, done, partition_path
from restante.client.transport.retries import Answered, answered
from restante.model.feed.feed_answers import FeedAnswer, FeedWish, SnapshotAnswer


def feed(terms: Terms, call: ReadFeed) -> Dialogue[FeedAnswer]:
    """The waiting is done at the hub: the answer comes as soon as there is a change."""
    path = f"{partition_path(call.partition)}/feed"
    asked = (*query_of(call, without=("wish", "wait")), *_wished(call.wish))
    longest = min(max(call.wait, 0), limits.WAIT_SECONDS_MAX)

    def attempt(elapsed: float) -> HttpRequest:
        left = max(longest - elapsed, 0)
        query = (*asked, ("wait", f"{left:.3f}")) if left else asked
        return HttpRequest("GET", path, terms.timeout + left, query=query, headers=FOR_ARROW)

    answer: Answered = yield from answered(terms, attempt)
    make = partial(feed_of, expect(answer.response, terms.address, 200), terms.address)
    page: FeedAnswer = make() if len(answer.response.body) <= limits.MIB else (yield LongWork(make))
    return page


def snapshot(terms: Terms, call: ReadSnapshot) -> Dialogue[SnapshotAnswer]:
    query = (*query_of(call, without=("wish",)), *_wished(call.wish))
    path = f"{partition_path(call.partition)}/snapshot"
    response = yield from done(terms, HttpRequest("GET", path, terms.timeout, query=query, headers=FOR_ARROW), 200)
    make = partial(snapshot_of, response, terms.address)
    page: SnapshotAnswer = make() if len(response.body) <= limits.MIB else (yield LongWork(make))
    return page


def _wished(wish: FeedWish) -> Pairs:
    return (
        *(("origin", name) for name in wish.origins),
        *(("kind", name) for name in wish.kinds),
        *(("recipient", name) for name in wish.recipients),
        *(("columns", name) for name in wish.columns),
    )


DIALOGUES: Dialogues = {ReadFeed: feed, ReadSnapshot: snapshot}
