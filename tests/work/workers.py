"""Workers for tests: in a thread of the test's process, with an event loop of their own."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any, Self

from restante.client.surface import sync
from restante.model.actions.action_answers import ActionStatus
from restante.settings import GroupSettings, Settings
from restante.work import App
from restante.work.runner import WorkRunner
from restante.work.worker_process import WorkerPlace, work_async
from tests.waiting import wait_until

HEARTBEAT = 0.5  # A machine that stands still for less than a lease is to end none.
SETTINGS = Settings(
    partition_count=4,
    housekeeping_seconds=0,
    groups=GroupSettings(heartbeat_seconds=HEARTBEAT, handover_seconds=5),
)


class WorkerHere:
    """A worker in a thread, from entering to leaving; then it has ended in order."""

    def __init__(self, app: App, url: str, **place: Any) -> None:
        self.app = app
        self._place = WorkerPlace(hub=url, **place)
        self._begun = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: WorkRunner | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.exit_code: int | None = None
        self.error: BaseException | None = None

    def _run(self) -> None:
        try:
            self.exit_code = asyncio.run(self._work())
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        finally:
            self._begun.set()

    async def _work(self) -> int:
        self._loop = asyncio.get_running_loop()
        return await work_async(self.app, self._place, watch=self._watch)

    def _watch(self, runner: WorkRunner) -> None:
        self._runner = runner
        self._begun.set()

    @property
    def runner(self) -> WorkRunner:
        assert self._runner is not None, self.error
        return self._runner

    def start(self) -> Self:
        self._thread.start()
        self._begun.wait()
        return self

    def has_partitions(self, count: int = SETTINGS.partition_count) -> bool:
        return len(self.runner.core.partitions) == count

    def stop(self) -> None:
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self.runner.stop)
        self.join()

    def join(self) -> int | None:
        self._thread.join()
        return self.exit_code

    def __enter__(self) -> Self:
        self.start()
        wait_until(lambda: self.error is not None or self.runner.is_ready, "the worker has joined")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def ended(hub: sync.Hub, status: ActionStatus) -> ActionStatus:
    """The action when it has ended, however long that takes."""
    while not status.is_final:
        status = hub.outcome(status.id, concerns=status.concerns, wait=20)
    return status
