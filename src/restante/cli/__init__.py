"""The command line: `restante`. One module a command group; each imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer

from restante.cli.exits import EPILOG, WRONG
from restante.cli.help import Command, Group
from restante.cli.wording import reword
from restante.errors import RestanteError, Unavailable


class _Group(Group):
    """Errors of the hub and of the system are one line with their code, not a traceback."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  # Typer's own signature
        try:
            return super().invoke(ctx)
        except RestanteError as error:
            print_error(error)
            raise typer.Exit(WRONG) from error
        except typer.BadParameter as error:
            reword(error)
            raise
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise  # Typer ends quietly when nobody reads any more.
            print_error(Unavailable(f"{error}."))
            raise typer.Exit(WRONG) from error


app = typer.Typer(
    name="restante",
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
)


def main() -> None:
    """The console script."""
    app()


def print_error(error: RestanteError) -> None:
    """One line on standard error, the code in red where there are colours; several problems are a line each."""
    from rich.console import Console
    from rich.text import Text

    problems = error.details.get("problems")
    several = isinstance(problems, list) and len(problems) > 1
    message = error.message if several else error.message.replace("\n", " ")
    line = Text.assemble(("error", "bold red"), f" {error.code}: ", message)
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
    restante tour --once            see it work: a sample night
    restante serve --data ./data    a hub, to which the others speak:
    restante send --recipient alice --text hello
    restante collect alice
    restante explain alice
    restante send part-*.parquet --consignment night-7
    restante consignments list      what is staged for one moment
    restante batches list           fan-outs: is everyone done?
    restante feed --follow          read along: everything that happens
    restante jobs list              tables and reports, on Spark
    restante backup night.tar       while it runs
    restante doctor ./data          when it does not: is all as it was?
    """


_COMMANDS = (
    "serve",
    "tour",
    "send",
    "collect",
    "explain",
    "history",
    "feed",
    "bench",
    "doctor",
    "backup",
    "restore",
    "migrate",
)
_GROUPS = ("batches", "consignments", "jobs", "recipients", "partitions", "tokens", "settings")


def _add_commands() -> None:
    for name in _COMMANDS:
        command: Callable[..., Any] = getattr(import_module(f"restante.cli.{name}"), name)
        app.command(name, epilog=EPILOG, cls=Command)(command)
    for name in _GROUPS:
        app.add_typer(import_module(f"restante.cli.{name}").app, name=name)


_add_commands()
