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

from bench import machine, plots, workloads
from bench.context import Bench
from bench.display import Display
from bench.report import Report
from bench.scale import FULL, NORMAL, QUICK, Scale

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results"


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.list:
        for name in workloads.ORDER:
            print(f"{name:<15}{workloads.title(name)}")
        return 0
    scale = QUICK if options.quick else FULL if options.full else NORMAL
    chosen = [name for name in workloads.ORDER if not options.only or name in options.only]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the data folder is removed
    failures = _watch_threads()
    with _data_folder(options.data) as folder:
        report = Report(
            command=shlex.join(["python", "-m", "bench", *arguments]),
            date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            scale=scale,
            machine=machine.describe(folder),
        )
        bench = Bench(scale, root=folder, kept=options.data or folder, display=Display())
        _run(report, chosen, bench, options.json or _results_path(scale, options.only))
    report.print(Console(width=None if sys.stdout.isatty() else 160))
    for failure in failures:
        print(f"The figures are not to be trusted: {failure}")
    return int(bool(failures))


def _watch_threads() -> list[str]:
    """A background thread that fails makes no noise, but the hub is not whole any more: it is told at the end."""
    failures: list[str] = []

    def note(failed: threading.ExceptHookArgs) -> None:
        threading.__excepthook__(failed)
        failures.append(f"the thread {failed.thread and failed.thread.name} died of {failed.exc_value!r}")

    threading.excepthook = note
    return failures


def _run(report: Report, chosen: Sequence[str], bench: Bench, path: Path) -> None:
    """What is done is written after each workload: an interrupted run has its results up to there."""
    with bench.display.running():
        for name in chosen:
            start = time.perf_counter()
            report.outcomes[name] = workloads.workload(name).run(bench)
            report.seconds[name] = time.perf_counter() - start
            report.machine["load_average_after"] = machine.load_average()
            report.write(path)
    whole = list(chosen) == list(workloads.ORDER) and report.scale is not QUICK
    images = plots.draw(report.as_json(), plots.IMAGES if whole else path.with_suffix(".tmp"))
    for written in (path, *images):
        print(f"wrote {written}", file=sys.stderr)


def _results_path(scale: Scale, only: Sequence[str] | None) -> Path:
    """A whole run is kept under its name; one that is only to try something is not."""
    name = "-".join([scale.name, *(only or ())])
    return RESULTS / (f"{name}.json" if scale is not QUICK and not only else f"{name}.partial.json")


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
    parser.add_argument("--only", action="append", choices=workloads.ORDER, metavar="NAME", help="this workload alone")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_true", help="small sizes, to try whether everything works")
    sizes.add_argument("--full", action="store_true", help="10⁶ emptied mailboxes instead of 10⁵")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to write the results")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="hold the data here; the grown store is kept and reused"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
