"""Where the time of a publish goes: `python -m bench.profile_publish [--recipients N] [--stored N] [--numbered]`.

Three views, each of them taken apart from the others as they slow one another down: the time of each publish, the
share of the functions named as phases (clocks around them, over all threads), and what cProfile sees in each thread.
Nothing is filed meanwhile.
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import importlib
import itertools
import pstats
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import restante
from bench.mail import Mail, recipient_name, recipient_names
from bench.ours import Ours
from bench.outcome import seconds_text
from bench.sampling import Samples, timed
from restante.model.storage.partition import partition_of
from restante.settings import Settings

PHASES = (
    "restante.model.publishing.intake:from_arrow",
    "restante.hub.publishing.publish:_plan",
    "restante.hub.publishing.publish:digests_of_columns",
    "restante.hub.publishing.make_mailbags:arrive",
    "restante.hub.publishing.publish:judge",
    "restante.hub.publishing.make_mailbags:mailbags",
    "restante.hub.publishing.publish:put_mailbag",
    "restante.hub.publishing.publish:_remember",
    "restante.hub.publishing.publish:_receipts",
    "restante.hub.publishing.publish:conclude",
    "restante.stores.sqlite.store:SqliteStore.commit",
    "restante.stores.sqlite.files:BlobFiles.write",
    "restante.stores.sqlite.log:Log.append",
    "restante.stores.sqlite.commits:Commits.transfer",
)
"""Functions as `module:name` or `module:Class.name`, in the module that calls them. The time of a nested function counts in both."""

PARTITION = 0
"""Where numbered parcels go."""

Seconds = dict[str, float]


def main(arguments: Sequence[str]) -> None:
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.data, suffix=".tmp") as folder:
        run = _Run(Path(folder), options)
        console = Console(width=140)
        _print_times(console, run.samples())
        with _clocks(options.phase or PHASES) as seconds:
            run.samples()
        _print_phases(console, seconds, options.repetitions)
        _print_profile(run, options.functions)


class _Run:
    """Publishes the same kind of table again and again, in a hub that is opened again for each view."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._folder = folder
        self._options = options
        self._mail = Mail()
        self._recipients = (_of_one_partition if options.numbered else recipient_names)(options.recipients)
        self._publish_stored()

    def samples(self) -> Samples:
        with closing(Ours(self._folder, settings=Settings(filing=False))) as ours:
            publish = _numbered(ours) if self._options.numbered else ours.publish
            return Samples(tuple(self._sample(publish) for _ in range(self._options.repetitions)))

    def _sample(self, publish: Callable[[pa.Table], None]) -> float:
        return timed(publish)(self._mail.table(self._recipients, self._options.messages))

    def _publish_stored(self) -> None:
        recipients = recipient_names(100_000)
        with closing(Ours(self._folder)) as ours:
            for _ in range(0, self._options.stored, 10_000):
                ours.publish(self._mail.table(recipients, 10_000))
            ours.settle()


def _of_one_partition(count: int) -> pa.StringArray:
    names = map(recipient_name, itertools.count())
    belonging = (name for name in names if partition_of(name, Settings().partition_count) == PARTITION)
    return pa.array(itertools.islice(belonging, count), pa.string())


def _numbered(ours: Ours) -> Callable[[pa.Table], None]:
    """Publishes by a producer that numbers what it sends."""
    producer = restante.ProducerClient(ours.hub, enable_idempotent_partitions=True)

    def publish(table: pa.Table) -> None:
        assert producer.send_messages(table, partition=PARTITION).accepted == table.num_rows

    return publish


@contextmanager
def _clocks(names: Sequence[str]) -> Iterator[Seconds]:
    """Puts a clock around each function; the sum of each is in the result afterwards."""
    seconds: Seconds = defaultdict(float)
    replaced = [_clock(name, seconds) for name in names if _exists(name)]
    try:
        yield seconds
    finally:
        for owner, attribute, original in replaced:
            setattr(owner, attribute, original)


def _exists(name: str) -> bool:
    try:
        owner, attribute = _place(name)
    except (ImportError, AttributeError):
        owner, attribute = None, ""
    found = hasattr(owner, attribute)
    if not found:
        print(f"there is no {name} any more", file=sys.stderr)
    return found


def _place(name: str) -> tuple[Any, str]:
    module, _, path = name.partition(":")
    *owners, attribute = path.split(".")
    return functools.reduce(getattr, owners, importlib.import_module(module)), attribute


def _clock(name: str, seconds: Seconds) -> tuple[Any, str, Callable[..., Any]]:
    owner, attribute = _place(name)
    original: Callable[..., Any] = getattr(owner, attribute)

    @functools.wraps(original)
    def clocked(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            seconds[name] += time.perf_counter() - start

    setattr(owner, attribute, clocked)
    return owner, attribute, original


def _print_times(console: Console, samples: Samples) -> None:
    console.print("each publish: " + ", ".join(map(seconds_text, samples.seconds)))
    console.print(f"median {seconds_text(samples.median)}, least {seconds_text(min(samples.seconds))}\n")


def _print_phases(console: Console, seconds: Seconds, repetitions: int) -> None:
    table = Table("phase", title="a publish")
    table.add_column("time", justify="right")
    for name, total in sorted(seconds.items(), key=lambda item: -item[1]):
        table.add_row(name, seconds_text(total / repetitions))
    console.print(table)


def _print_profile(run: _Run, functions: int) -> None:
    profiles = _profiled(run.samples)
    for thread, profile in profiles.items():
        print(f"--- thread {thread}")
        pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(functions)


def _profiled(action: Callable[[], object]) -> dict[str, cProfile.Profile]:
    """The profiles of the calling thread and of all that it starts; they must have ended when the action returns."""
    profiles: dict[str, cProfile.Profile] = {}

    def begin(*_: object) -> None:
        profile = profiles[threading.current_thread().name] = cProfile.Profile()
        profile.enable()  # takes the place of this function in its thread

    threading.setprofile(begin)
    begin()
    try:
        action()
    finally:
        profiles[threading.current_thread().name].disable()
        threading.setprofile(None)
    return profiles


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.profile_publish", description=__doc__)
    parser.add_argument("--recipients", type=int, default=5_000)
    parser.add_argument("--messages", type=int, default=51_200)
    parser.add_argument("--stored", type=int, default=0, help="messages that the hub holds before")
    parser.add_argument("--numbered", action="store_true", help="numbered parcels for one partition")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--functions", type=int, default=25, help="how many functions of each thread to show")
    parser.add_argument("--phase", action="append", help="a function to put a clock around, as module:name")
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "results")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
