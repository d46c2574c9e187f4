"""Where the commands find their hub, and a short way to call them."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from typer.testing import CliRunner, Result

import restante
from restante.cli import app
from restante.client.surface.surface import Hub
from restante.settings import Settings


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=stdin)


class Place(Protocol):
    """`options` lead a command to the hub; `opened` looks at it without any."""

    @property
    def options(self) -> tuple[str, ...]: ...
    def opened(self) -> AbstractContextManager[Hub]: ...
    def run(self, command: str, *arguments: str, stdin: bytes | None = None) -> Result: ...
    def answer(self, command: str, *arguments: str) -> Any: ...


class _Place:
    options: tuple[str, ...]

    def run(self, command: str, *arguments: str, stdin: bytes | None = None) -> Result:
        return run(*command.split(), *arguments, *self.options, stdin=stdin)

    def answer(self, command: str, *arguments: str) -> Any:
        """What it says with --json."""
        result = self.run(command, *arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


class FolderPlace(_Place):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.options = ("--data", str(folder))

    def opened(self) -> AbstractContextManager[Hub]:
        return restante.open(self.folder, settings=Settings(partition_count=4))


class HubPlace(_Place):
    def __init__(self, url: str) -> None:
        self.url = url
        self.options = ("--hub", url)

    def opened(self) -> AbstractContextManager[Hub]:
        return restante.connect(self.url)
