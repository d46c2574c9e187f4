"""S4: how far the analytical store is behind while 5,000 messages a second are published, for three minutes.

The store takes in what is new every 20 seconds. Looked at each second: how long ago the newest change was made that is in
the tables, unless there is nothing newer.
"""

from __future__ import annotations

import threading
import time

import numpy as np

import restante
from bench import spark as sparks
from bench.context import Bench
from bench.mail import recipient_names
from bench.outcome import Figure, Goal, Line, Outcome, Unit
from bench.wire import WireBench
from restante.spark.jobs import analytical_store
from restante.spark.jobs.work import Work

WHAT = "S4 the analytical store behind 5,000 messages a second"
RATE = 5_000
AT_A_TIME = 500
TRIGGER = "20 seconds"
AT_MOST_SECONDS = 120.0


def run(bench: WireBench) -> Outcome:
    with sparks.session() as spark, sparks.hub(bench) as server:
        work = Work(spark=spark, url=server.url, tables=str(bench.fresh_folder()))
        running = analytical_store.start(work, analytical_store.Options(trigger=TRIGGER))
        try:
            published, lags = _watch(bench, server.url, running)
        finally:
            running.stop()
        outcome = analytical_store.run(work, analytical_store.Options())
        rows = spark.read.format("delta").load(work.place("messages")).count()
        assert rows == published, f"{rows} of {published} messages in the table after {outcome.figures}"
    figure = Figure(max(lags), Unit.SECONDS, "the longest", tuple(lags))
    middle = Figure(float(np.median(lags)), Unit.SECONDS, "the median", tuple(lags))
    goal = Goal(f"≤ {AT_MOST_SECONDS:g} s", at_most=AT_MOST_SECONDS, of_value=True)
    series = {WHAT: {"seconds behind": [(float(second), lag) for second, lag in enumerate(lags)]}}
    return Outcome([Line(f"{WHAT}, longest", figure, goal=goal), Line(f"{WHAT}, median", middle)], series=series)


def _watch(bench: Bench, url: str, running: analytical_store.RunningStore) -> tuple[int, list[float]]:
    """How many were published, and the lag at each second."""
    seconds = bench.scale.lag_seconds
    published, ended = [0], threading.Event()
    publisher = threading.Thread(target=_publish, args=(bench, url, seconds, published, ended))
    publisher.start()
    lags = []
    with bench.display.bar(WHAT, seconds) as advance:
        while not ended.wait(1):
            lags.append(running.lag().seconds or 0.0)
            advance(f"{lags[-1]:.0f} s behind")
    publisher.join()
    return published[0], lags


def _publish(bench: Bench, url: str, seconds: int, published: list[int], ended: threading.Event) -> None:
    names = recipient_names(bench.scale.send_recipients)
    start = time.monotonic()
    try:
        with restante.connect(url) as hub:
            for turn in range(seconds * RATE // AT_A_TIME):
                hub.producer.send(bench.mail.table(names, AT_A_TIME))
                published[0] += AT_A_TIME
                time.sleep(max(0.0, start + (turn + 1) * AT_A_TIME / RATE - time.monotonic()))
    finally:
        ended.set()
