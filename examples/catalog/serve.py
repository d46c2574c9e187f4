"""Serve the API. `python -m examples.catalog.serve --hub http://127.0.0.1:8470 --database catalog.db`."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import uvicorn

import restante.aio
from examples.catalog.api import Catalog
from examples.catalog.database import Database
from restante import Retrying
from restante.client.surface.asynchronous import Hub

T = TypeVar("T")
API_KEY_VARIABLE = "CATALOG_API_KEY"
API_KEY = "catalog-key"
"""The key unless the variable says another one: this is an example."""


RETRIES = Retrying(times=2, seconds=0.5)
"""A connection that was cut is made again; a hub that says "come later" is what the caller hears."""


def server_of(database: Database, hub: Hub, api_key: str) -> uvicorn.Server:
    config = uvicorn.Config(
        Catalog(database, hub, api_key).routes(),
        lifespan="off",
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)


@contextmanager
def listening(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """A socket that listens, and its address for callers; port 0 is a free one."""
    with socket.create_server((host, port), backlog=1_024) as listener:
        yield listener, f"http://{host}:{listener.getsockname()[1]}"


async def serve(options: argparse.Namespace) -> None:
    """The API until SIGTERM or Ctrl-C; one line says its address."""
    with listening(options.host, options.port) as (listener, url), closing(Database(options.database)) as database:
        async with restante.aio.connect(options.hub, retries=RETRIES) as hub:
            server = server_of(database, hub, os.environ.get(API_KEY_VARIABLE, API_KEY))
            print(f"The catalogue is served on {url}", flush=True)
            await server.serve([listener])


def run_quickly(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, in the quicker event loop where that is installed."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 - Windows has none
    except ImportError:
        return None
    return new_event_loop


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM ends this process as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve the API of the catalogue.")
    parser.add_argument("--hub", default="http://127.0.0.1:8470")
    parser.add_argument("--database", type=Path, default=Path("catalog.db"))
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8471, help="0 is a free one")
    with suppress(KeyboardInterrupt), interruptible():
        run_quickly(serve(parser.parse_args()))
