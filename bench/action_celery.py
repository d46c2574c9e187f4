"""The task of Celery that does nothing, for its worker."""

from __future__ import annotations

import os

from bench.server import driver

app = driver("celery").Celery("bench", broker=os.environ["BENCH_BROKER"])
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="bench.nothing")  # type: ignore[untyped-decorator]
def nothing(number: int) -> int:
    return number
