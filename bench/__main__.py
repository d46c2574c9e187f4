"""`python -m bench`: runs the workloads, prints the table, writes the JSON, draws the plots."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from bench import machine, workloads
from bench.context import Bench
from bench.display import Display
from bench.report import Report
from bench.scale import FULL, NORMAL, QUICK, Scale

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results"


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    order = workloads.WIRE_ORDER if options.peers else workloads.ORDER
    if options.list:
        for name in order:
            print(f"{name:<18}{workloads.title(name)}")
        return 0
    scale = QUICK if options.quick else FULL if options.full else NORMAL
    chosen = [name for name in order if not options.only or name in options.only]
    if not chosen:
        print(f"None of these workloads; choose among {', '.join(order)}.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the data folder is removed
    failures = _watch_threads()
    with _data_folder(options.data) as folder:
        report = Report(
            command=shlex.join(["python", "-m", "bench", *arguments]),
            date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            scale=scale,
            machine=machine.describe(folder),
        )
        with _bench(report, folder, options, chosen) as bench:
            _run(report, chosen, bench, options.json or _results_path(scale, options))
    report.print(Console(width=None if sys.stdout.isatty() else 160))
    for failure in failures:
        print(f"The figures are not to be trusted: {failure}")
    return int(bool(failures))


@contextmanager
def _bench(report: Report, folder: Path, options: argparse.Namespace, chosen: Sequence[str]) -> Iterator[Bench]:
    """The bench that the workloads are given. Servers are stopped at the end, however it comes."""
    kept = options.data or folder
    if not options.peers:
        yield Bench(report.scale, root=folder, kept=kept, display=Display())
        return
    # Imported here, as the servers' clients are needed for nothing else.
    from bench import wire

    peers = not workloads.WIRE_ALONE.issuperset(chosen)
    with wire.running(folder, ours=not options.without_ours, peers=peers) as (servers, facts):
        report.servers = facts
        yield wire.WireBench(report.scale, root=folder, kept=kept, display=Display(), servers=servers)


def _watch_threads() -> list[str]:
    """Collect the failures of background threads, for the end of the run: a hub that has lost a thread is not whole any more."""
    failures: list[str] = []

    def note(failed: threading.ExceptHookArgs) -> None:
        threading.__excepthook__(failed)
        failures.append(f"the thread {failed.thread and failed.thread.name} died of {failed.exc_value!r}")

    threading.excepthook = note
    return failures


def _run(report: Report, chosen: Sequence[str], bench: Bench, path: Path) -> None:
    """Run the workloads, and write down what is done after each: an interrupted run has its results up to there."""
    from bench import plots  # imported here, before any timing, because it takes half a second

    with bench.display.running():
        for name in chosen:
            start = time.perf_counter()
            report.outcomes[name] = workloads.workload(name).run(bench)
            report.seconds[name] = time.perf_counter() - start
            report.machine["load_average_after"] = machine.load_average()
            report.write(path)
    whole = not path.name.endswith(".partial.json") and list(chosen) in map(
        list, (workloads.ORDER, workloads.WIRE_ORDER)
    )
    images = plots.draw(report.as_json(), plots.IMAGES if whole else path.with_suffix(".tmp"))
    for written in (path, *images):
        print(f"wrote {written}", file=sys.stderr)


def _results_path(scale: Scale, options: argparse.Namespace) -> Path:
    """A whole run is kept under its name; one that is only to try something is not."""
    only: list[str] = options.only or []
    if not only and scale is not QUICK and not options.without_ours:
        return RESULTS / ("peers.json" if options.peers else f"{scale.name}.json")
    parts = ["peers"] * options.peers + [scale.name] + ["without-ours"] * options.without_ours
    return RESULTS / f"{'-'.join([*parts, *only])}.partial.json"


@contextmanager
def _data_folder(given: Path | None) -> Iterator[Path]:
    """A folder on the disk of the checkout: /tmp may be memory, which makes nothing durable."""
    place = given or RESULTS
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="data-", suffix=".tmp", dir=place) as folder:
        yield Path(folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the workloads and stop")
    parser.add_argument("--peers", action="store_true", help="over the wire, beside real servers")
    parser.add_argument("--without-ours", action="store_true", help="with --peers: the other servers alone")
    parser.add_argument(
        "--only",
        action="append",
        choices=(*workloads.ORDER, *workloads.WIRE_ORDER),
        metavar="NAME",
        help="this workload alone",
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_true", help="small sizes, to try whether everything works")
    sizes.add_argument(
        "--full", action="store_true", help="10⁶ emptied mailboxes instead of 10⁵, a commit of 3·10⁶, and 10⁸ stored"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to write the results")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="hold the data here; the grown store is kept and reused"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
