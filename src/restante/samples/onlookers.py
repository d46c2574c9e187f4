"""A live view beside a sample night: a few recipients are connected, and show their messages as they arrive."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from restante.client.surface.surface import Hub, Live
from restante.model.figures import counted
from restante.model.publishing.message import Message
from restante.samples.night_steps import NightResult, NightStep

ONLOOKERS = 3
_LINES_MAX = 4
_PATIENCE_SECONDS = 30.0
_PAGE = 1_000

Tell = Callable[[str], None]


class Onlooker:
    """One recipient that is connected."""

    def __init__(self, name: str, live: Live, arrived: Callable[[Message], None]) -> None:
        self.name = name
        self.numbers: list[int] = []
        self.first = self.last = 0.0
        self.error: BaseException | None = None
        self._live = live
        self._arrived = arrived
        self._thread = threading.Thread(target=self._look, name=f"restante-onlooker-{name}", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        try:
            for message in self._live:
                self.last = time.perf_counter()
                self.first = self.first or self.last
                self.numbers.append(message.sequence_number or 0)
                self._arrived(message)
        except Exception as error:  # noqa: BLE001  # told when the night is over
            self.error = error

    def close(self) -> None:
        self._live.close()
        self._thread.join()


class _Lines:
    """The first messages of each that arrive, a line each."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._shown: dict[str, int] = {}

    def __call__(self, message: Message) -> None:
        with self._lock:
            shown = self._shown[message.recipient] = self._shown.get(message.recipient, 0) + 1
            if shown <= _LINES_MAX:
                self._tell(f"live  {message.recipient}  number {message.sequence_number:,}  {message.kind}")
            elif shown == _LINES_MAX + 1:
                self._tell(f"live  {message.recipient}  … and so on, as they arrive")


@contextmanager
def looking_on(hub: Hub, names: Sequence[str], night: NightResult, tell: Tell) -> Iterator[None]:
    """Connect some recipients while the mail is delivered; then the night has a step that reports on them."""
    lines = _Lines(tell)
    with ExitStack() as stack:
        onlookers = []
        for name in names[:ONLOOKERS]:
            live = stack.enter_context(hub.recipient(name).live(after=0, client="tour"))
            onlooker = Onlooker(name, live, lines)
            stack.callback(onlooker.close)
            onlookers.append(onlooker)
        yield
        expected = {onlooker.name: _numbers(hub, onlooker.name) for onlooker in onlookers}
        _wait(onlookers, expected)
    night.steps.append(_step(onlookers))
    night.wrong += [
        f"{onlooker.name} did not get its messages pushed as they are stored: {onlooker.error or 'some are missing'}."
        for onlooker in onlookers
        if onlooker.numbers != expected[onlooker.name]
    ]


def _wait(onlookers: Sequence[Onlooker], expected: dict[str, list[int]]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline and any(
        one.error is None and len(one.numbers) < len(expected[one.name]) for one in onlookers
    ):
        time.sleep(0.01)


def _numbers(hub: Hub, name: str) -> list[int]:
    """The numbers that the recipient has, in order."""
    numbers: list[int] = []
    after: int | None = 0
    while after is not None:
        page = hub.recipient(name).history(after=after, limit=_PAGE)
        numbers += [message.sequence_number or 0 for message in page.messages]
        after = page.next
    return numbers


def _step(onlookers: Sequence[Onlooker]) -> NightStep:
    count = sum(len(one.numbers) for one in onlookers)
    first = min((one.first for one in onlookers if one.first), default=0.0)
    seconds = max(one.last for one in onlookers) - first
    detail = f"{counted(len(onlookers), 'recipient')} connected: each message came by itself, once and in order"
    return NightStep(step="pushed live", messages=count, seconds=max(seconds, 0.0), detail=detail)
