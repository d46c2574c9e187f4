"""A command starts quickly: it loads what it needs, and no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from restante.model.publishing.message import Message
from tests.cli.places import HubPlace

HEAVY = {
    "asyncio",
    "deltalake",
    "duckdb",
    "matplotlib",
    "pandas",
    "polars",
    "pydantic",
    "pyspark",
    "restante.hub",
    "restante.server",
    "restante.stores",
    "sqlite3",
    "uvicorn",
}
COLUMNS = {"numpy", "pyarrow", "websockets"}
HELLO = Message(recipient="ada", data="hello")
SHOWING = {"rich", "typer.rich_utils"}

PROGRAM = """
import atexit, sys
from restante.cli import main
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
main()
"""


def loaded_by(*arguments: str) -> set[str]:
    """What is imported when a command, which must have something to do, is through."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_a_message_is_sent_without_columns_converters_and_colours(hub_place: HubPlace) -> None:
    loaded = loaded_by("send", "--recipient", "ada", "--text", "hello", *hub_place.options)
    assert not loaded & (HEAVY | COLUMNS | SHOWING)
    with hub_place.opened() as hub:
        bundle = hub.recipient("ada").peek()
        assert bundle is not None
        assert [message.data for message in bundle.messages] == ["hello"]


def test_a_mailbox_is_explained_without_columns_and_converters(hub_place: HubPlace) -> None:
    with hub_place.opened() as hub:
        hub.producer.send(HELLO)
    assert not loaded_by("explain", "ada", *hub_place.options) & (HEAVY | COLUMNS)


def test_mail_is_collected_without_pandas_and_event_loops(hub_place: HubPlace) -> None:
    with hub_place.opened() as hub:
        hub.producer.send(HELLO)
    assert not loaded_by("collect", "ada", *hub_place.options) & HEAVY


def test_a_file_is_sent_and_a_folder_opened_without_pandas(tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    file.write_text('{"recipient": "ada", "data": 1}\n', encoding="utf-8")
    assert "pandas" not in loaded_by("send", str(file), "--data", str(tmp_path / "data"))
    assert "pandas" not in loaded_by("collect", "ada", "--data", str(tmp_path / "data"))


def test_help_needs_neither_columns_nor_converters() -> None:
    assert not loaded_by("--help") & (HEAVY | COLUMNS)
