"""`restante settings`: what the settings are, where each comes from, and what is wrong with a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.exits import EPILOG, WRONG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from restante.errors import InvalidSettings

app = typer.Typer(
    name="settings",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=EPILOG,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


@app.callback()
def settings() -> None:
    """Show the settings that count, or check a settings file.

    \b
    restante settings show                            defaults and environment
    restante settings show --settings restante.toml   with a file
    restante settings check restante.toml             what is wrong with it, by line
    """


@app.command("show", epilog=EPILOG)
def show(
    file: Annotated[
        Path | None,
        typer.Option("--settings", metavar="FILE", envvar="RESTANTE_SETTINGS", help="The settings file, in TOML."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show every setting: its value, and whether that is the default, of the file, or of the environment.

    \b
    restante settings show --settings restante.toml
    RESTANTE_SERVER__PORT=9000 restante settings show
    restante settings show --json | jq '.settings[] | select(.source != "default")'
    """
    from restante.cli.showing import output, print_json, table_of
    from restante.errors import InvalidSettings
    from restante.settings_file import load

    try:
        effective = load(file, os.environ).effective()
    except InvalidSettings as error:
        print(*_problems_of(error), sep="\n", file=sys.stderr)
        raise typer.Exit(WRONG) from error
    if as_json:
        print_json({"settings": effective})
    else:
        rows = [(setting.key, _shown(setting.value), setting.source) for setting in effective]
        output().print(table_of(("setting", "value", "from"), rows))


@app.command("check", epilog=EPILOG)
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The settings file, in TOML.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Check a settings file: every problem in it, with its line. The environment is not looked at.

    \b
    restante settings check restante.toml
    restante settings check restante.toml && restante serve --settings restante.toml
    """
    from restante.cli.showing import counted, print_json
    from restante.errors import InvalidSettings
    from restante.settings_file import load_settings

    problems: Sequence[str] = ()
    try:
        load_settings(file, {})
    except InvalidSettings as error:
        problems = _problems_of(error)
    if as_json:
        print_json({"file": str(file), "problems": problems})
    else:
        verdict = counted(len(problems), "problem") if problems else "all right"
        print(*problems, f"{file}: {verdict}", sep="\n")
    raise typer.Exit(WRONG if problems else 0)


def _problems_of(error: InvalidSettings) -> Sequence[str]:
    problems = error.details["problems"]
    assert isinstance(problems, list)
    return problems


def _shown(value: object) -> str:
    """As it would be written in the file."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)
