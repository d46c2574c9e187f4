"""Captured files come back into a hub: each message once, with its id, and in its order."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from restante import Message
from restante.errors import InvalidRequest
from restante.spark.jobs import capture, replay
from restante.spark.jobs.work import Work
from restante.spark.source.schemas import CHANGES
from tests.spark.given_then import Case, cases, frame_of, named
from tests.spark.served import SparkHub

NOW = datetime(2026, 4, 1, tzinfo=UTC)


@pytest.mark.parametrize("case", cases("replay"), ids=named)
def test_what_comes_back_follows_from_what_was_captured(spark: SparkSession, case: Case) -> None:
    changes = case.given(spark, "changes", CHANGES)
    case.check("messages", replay.transform(changes, case.options(replay.Options), now=NOW))


def test_the_key_follows_from_what_was_captured_and_asked_for(spark: SparkSession) -> None:
    def key(name: str, options: replay.Options) -> str:
        """Of a capture of two messages under the same numbers, whatever they are."""
        row = {"partition": 0, "change": "published", "recipient": "alice", "id": name}
        rows = [{**row, "sequence_number": 1}, {**row, "sequence_number": 2}]
        return replay.key_of(frame_of(spark, rows, CHANGES), options)

    one = key("a", replay.Options())
    assert key("a", replay.Options(path="elsewhere")) == one
    assert key("b", replay.Options()) != one, "another hub has the same numbers"
    assert key("a", replay.Options(all=True)) != one


def test_a_hub_that_was_lost_is_filled_again_from_its_capture(spark: SparkSession, hub: SparkHub, tables: str) -> None:
    with closing(hub.connect()) as first:
        sent = [Message(recipient=f"actor-{n % 3}", origin="billing", data={"n": n}) for n in range(30)]
        first.producer.send(sent)
        bundle = first.recipient("actor-0").peek()
        assert bundle is not None
        bundle.dequeue()
    work = Work(spark=spark, url=hub.url, tables=tables)
    capture.run(work, capture.Options())
    with hub.another() as empty:
        again = Work(spark=spark, url=empty.url, tables=tables)
        figures = replay.run(again, replay.Options()).figures
        assert (figures["messages"], figures["duplicates"]) == (20, 0)
        assert replay.run(again, replay.Options()).figures == figures, "the same consignment, delivered once"
        others = replay.run(again, replay.Options(all=True)).figures
        assert (others["messages"], others["duplicates"]) == (10, 20), "another consignment, and the same ids"
        with closing(empty.connect()) as second:
            for actor in range(3):
                got = second.recipient(f"actor-{actor}").peek()
                assert got is not None
                assert [message.data for message in got.messages] == [message.data for message in sent[actor::3]]


def test_without_a_capture_there_is_nothing_to_replay(spark: SparkSession, tables: str) -> None:
    with pytest.raises(InvalidRequest, match="restante jobs run capture"):
        replay.run(Work(spark=spark, tables=tables), replay.Options())
