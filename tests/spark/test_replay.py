"""Captured files come back into a hub: each message once, with its id, and in its order."""

from __future__ import annotations

from contextlib import closing

import pytest
from pyspark.sql import SparkSession

from restante import Message
from restante.errors import InvalidRequest
from restante.spark.jobs import capture, replay
from restante.spark.jobs.work import Work
from restante.spark.schemas import CHANGES
from tests.spark.given_then import Case, cases, named
from tests.spark.served import HubProcess


@pytest.mark.parametrize("case", cases("replay"), ids=named)
def test_what_comes_back_follows_from_what_was_captured(spark: SparkSession, case: Case) -> None:
    changes = case.given(spark, "changes", CHANGES)
    case.check("messages", replay.transform(changes, case.options(replay.Options)))


def test_a_hub_that_was_lost_is_filled_again_from_its_capture(
    spark: SparkSession, hub: HubProcess, tables: str
) -> None:
    with closing(hub.connect()) as first:
        sent = [Message(recipient=f"actor-{n % 3}", origin="billing", data={"n": n}) for n in range(30)]
        first.producer.send(sent)
        bundle = first.recipient("actor-0").peek()
        assert bundle is not None
        bundle.dequeue()
    work = Work(spark=spark, url=hub.url, tables=tables)
    capture.run(work, capture.Options())
    with _another(hub) as empty:
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


def _another(hub: HubProcess) -> HubProcess:
    return HubProcess(hub.folder.parent / "another")
