"""The command line: `restante`. One module a command group; each imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from restante.errors import RestanteError

_EPILOG = "Exit codes: 0 all is well, 1 something is wrong (the last line says what), 2 the command was not understood."


class _Group(TyperGroup):
    """Errors of the hub are one line with their code, not a traceback."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  # Typer's own signature
        try:
            return super().invoke(ctx)
        except RestanteError as error:
            print_error(error)
            raise typer.Exit(1) from error


app = typer.Typer(
    name="restante",
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG,
)


def main() -> None:
    """The console script."""
    app()


def print_error(error: RestanteError) -> None:
    """One line on standard error, the code in red where there are colours."""
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble(("error", "bold red"), f" {error.code}: ", error.message.replace("\n", " "))
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        from restante import __version__

        print(f"restante {__version__}")
        raise typer.Exit


@app.callback()
def _restante(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A durable mailbox hub: it holds each recipient's messages in order until they collect them.

    \b
    restante tour                    see it work: a sample night, in ten seconds
    restante tour --data ./data      the same, and keep what it stored
    restante doctor ./data           is all as it was stored?
    """


def _add_commands() -> None:
    from restante.cli import doctor, tour

    app.command("tour", epilog=_EPILOG)(tour.tour)
    app.command("doctor", epilog=_EPILOG)(doctor.doctor)


_add_commands()
