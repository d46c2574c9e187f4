"""`restante settings`: what the settings are, where each comes from, and what is wrong with a file."""

from __future__ import annotations

import json
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.exits import WRONG
from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.options import AsJson
from restante.cli.shared.output import listing, print_answer, print_json
from restante.cli.shared.plain import say
from restante.model.figures import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from restante.errors import InvalidSettings

app = command_group("settings")

_NAME = r'(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*")'
_KEY = rf"{_NAME}(?:\.{_NAME})*"
"""A key as TOML writes it."""


@app.callback()
def settings() -> None:
    """Show or check the settings.

    \b
    restante settings show                   defaults and environment
    restante settings show --settings restante.toml
    restante settings check restante.toml    problems by line
    """


@command_of(app, "show")
def show(
    file: Annotated[
        Path | None,
        typer.Option("--settings", metavar="FILE", envvar="RESTANTE_SETTINGS", help="The settings file, in TOML."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show every setting: its value, and whether the value is the default, from the file, or from the environment.

    \b
    restante settings show --settings restante.toml
    RESTANTE_SERVER__PORT=9000 restante settings show
    restante settings show --json | jq '.settings[] | select(.value == true)'
    """
    from restante.errors import InvalidSettings
    from restante.settings.file import load

    try:
        effective = load(file, os.environ).effective()
    except InvalidSettings as error:
        say(*_problems_of(error), sep="\n", file=sys.stderr)
        raise typer.Exit(WRONG) from error
    rows = [(setting.key, _shown(setting.value), setting.source) for setting in effective]
    shown = partial(listing, ("setting", "value", "from"), rows)
    print_answer({"settings": effective}, shown, as_json=as_json)


@command_of(app, "check")
def check(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", envvar="RESTANTE_SETTINGS", help="The settings file, in TOML.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the settings that a hub started here would have, and name every problem.

    Problems of the file have their line, problems of the environment the name of the variable.

    \b
    restante settings check restante.toml    file and environment
    restante settings check                  the environment alone
    """
    from restante.errors import InvalidSettings
    from restante.settings.file import load_settings

    problems: Sequence[str] = ()
    try:
        load_settings(file, os.environ)
    except InvalidSettings as error:
        problems = _problems_of(error)
    if as_json:
        name = None if file is None else str(file)
        print_json({"file": name, "problems": [_parted(problem, name or "") for problem in problems]})
    else:
        verdict = counted(len(problems), "problem") if problems else "all right"
        where = "the environment" if file is None else f"{file} and the environment"
        say(*problems, f"{where}: {verdict}", sep="\n")
    raise typer.Exit(WRONG if problems else 0)


def _parted(problem: str, file: str) -> dict[str, str | None]:
    """The place, the key and what is wrong. A problem of a file as a whole has no key."""
    found = re.fullmatch(rf"({re.escape(file)}(?::\d+)?|environment \S+): (?:({_KEY}): )?(.*)", problem, re.DOTALL)
    place, key, detail = found.groups() if found else (None, None, problem)
    return {"place": place, "key": key, "problem": detail}


def _problems_of(error: InvalidSettings) -> Sequence[str]:
    problems = error.details["problems"]
    assert isinstance(problems, list)
    return problems


def _shown(value: object) -> str:
    """A setting as it would be written in the file."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(json.dumps(part) for part in value)}]"
    return f"{value:.15g}" if isinstance(value, float) else str(value)
