"""The API of the catalogue, served."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from examples.catalog.api import AskFor, Catalog
from examples.catalog.database import Database

API_KEY_VARIABLE = "CATALOG_API_KEY"
API_KEY = "catalog-key"
"""The key unless the variable says another one: this is an example."""


def server_of(database: Database, ask_for: AskFor, api_key: str) -> uvicorn.Server:
    config = uvicorn.Config(
        Catalog(database, ask_for, api_key).routes(),
        lifespan="off",
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)


@contextmanager
def listening(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """A socket that listens, and its address for callers; port 0 is a free one."""
    with socket.create_server((host, port), backlog=1_024) as listener:
        yield listener, f"http://{host}:{listener.getsockname()[1]}"
