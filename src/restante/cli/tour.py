"""`restante tour`: a hub started here, and a sample night played against it over HTTP."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.exits import WRONG

if TYPE_CHECKING:
    from restante.cli.sample_night import Advance, Night
    from restante.server.serving import Running

_MESSAGES_MAX = 100_000_000
_RECIPIENTS_MAX = 1_000_000
_PORT = 8470
_MOMENT_SECONDS = 0.5


def tour(
    messages: Annotated[int, typer.Option(min=1, max=_MESSAGES_MAX, help="How many messages.")] = 100_000,
    recipients: Annotated[int, typer.Option(min=1, max=_RECIPIENTS_MAX, help="For how many recipients.")] = 1_000,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            file_okay=False,
            help="The data folder. Default: ./data; with --once, a temporary folder that is removed at the end.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Where the hub listens. Default: 8470, or a free one if that is taken."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End after the night.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Start a hub and play a sample night against it: messages are published, filed, collected and confirmed.

    Everything goes over HTTP and is durable, as in earnest; the times are those of this machine. Afterwards the hub
    stays up, so that you can look around, until Ctrl-C.

    \b
    restante tour           on ./data, until Ctrl-C
    restante tour --once    in a temporary folder, and ends by itself
    restante tour --messages 1000000 --recipients 50000
    """
    with _folder(data, once=once) as folder, _hub_on(folder, port=0 if once and port is None else port) as running:
        night = _played(running.url, messages, recipients)
        up = not once and not night.wrong
        with _until_interrupted():
            _show(night, running.url, folder, kept=not once or data is not None, up=up, as_json=as_json)
            while up:
                # Not for long: a signal that comes just before a sleep is heard only after it.
                time.sleep(_MOMENT_SECONDS)
    raise typer.Exit(WRONG if night.wrong else 0)


@contextmanager
def _folder(data: Path | None, *, once: bool) -> Iterator[Path]:
    if data is None and once:
        with tempfile.TemporaryDirectory(prefix="restante-tour-") as temporary:
            yield Path(temporary)
        return
    folder = data or Path("data")
    if folder.exists() and any(folder.iterdir()) and not (folder / "restante.db").exists():
        raise typer.BadParameter(f"{folder} holds something else. Name another folder.", param_hint="--data")
    yield folder


@contextmanager
def _hub_on(folder: Path, *, port: int | None) -> Iterator[Running]:
    from restante.cli.connecting import settings_here
    from restante.errors import ExtraMissing, InvalidRequest

    try:
        from restante.server.serving import start
    except ImportError as error:
        raise ExtraMissing(f"The tour needs the server ({error}): pip install 'restante[server]'.") from error
    settings = settings_here()
    try:
        running = start(folder, settings, port=_PORT if port is None else port)
    except InvalidRequest:
        if port is not None:
            raise
        running = start(folder, settings, port=0)
    with running:
        yield running


def _played(url: str, messages: int, recipients: int) -> Night:
    import restante
    from restante.cli.sample_night import Post, play
    from restante.cli.showing import progress_bar

    with progress_bar() as bar, restante.connect(url, token=os.environ.get("RESTANTE_TOKEN")) as hub:

        @contextmanager
        def watch(name: str, total: int) -> Iterator[Advance]:
            task = bar.add_task(f"{name:<24}", total=total, note="")
            yield lambda done: bar.advance(task, done)

        return play(hub, Post(messages, recipients), watch)


def _show(night: Night, url: str, folder: Path, *, kept: bool, up: bool, as_json: bool) -> None:
    from restante.cli import tour_summary
    from restante.cli.showing import output

    stored_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if as_json:
        tour_summary.print_as_json(night, url, stored_bytes, folder if kept else None)
    else:
        console = output()
        tour_summary.print_night(console, night, stored_bytes, folder if kept else None)
        if up:
            tour_summary.print_addresses(console, url, folder)


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM end what is inside, and nothing else."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
