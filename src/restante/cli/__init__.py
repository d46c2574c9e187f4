"""The command line: `restante`. One module a command group; each imports what it needs when it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restante.cli.shared.exits import EPILOG, WRONG
from restante.cli.shared.help import Command, HelpGroup
from restante.cli.shared.no_pandas import say_command
from restante.cli.shared.options import MISTAKES, reword
from restante.cli.shared.plain import say, say_warnings
from restante.errors import RestanteError, Unavailable
from restante.model.columns.plain_text import plain

if TYPE_CHECKING:
    app: typer.Typer
    """The whole command line. It is made when it is asked for: a command that runs needs only itself."""


class _Group(HelpGroup):
    """Errors of the hub and of the system are one line with their code, not a traceback."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401  # Typer's own signature
        """A name that people know from elsewhere is answered with ours."""
        if args and args[0] in _ELSEWHERE:
            ctx.fail(f"There is no command {args[0]!r}. Use: restante {_ELSEWHERE[args[0]]}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401  # Typer's own signature
        try:
            return super().parse_args(ctx, args)
        except MISTAKES as error:
            reword(error)
            raise

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  # Typer's own signature
        try:
            return super().invoke(ctx)
        except RestanteError as error:
            print_error(error)
            raise typer.Exit(WRONG) from error
        except MISTAKES as error:
            reword(error)
            raise
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise  # Typer ends quietly when nobody reads any more.
            print_error(Unavailable(f"{error}."))
            raise typer.Exit(WRONG) from error


def main() -> None:
    """The console script. It makes only the command that the first word names, but all of them for help and for mistakes."""
    say_warnings()
    name = "".join(sys.argv[1:2])
    if name not in (*_COMMANDS, *_GROUPS):
        _whole_app()()
    say_command(name)
    _app((name,))()


def __getattr__(name: str) -> typer.Typer:
    if name == "app":
        return _whole_app()
    raise AttributeError(f"module 'restante.cli' has no attribute {name!r}")


def print_error(error: RestanteError) -> None:
    """One line on standard error, the code in red where there are colours; several problems are a line each."""
    from rich.console import Console
    from rich.text import Text

    heading, *rest = error.message.split("\n")
    problems = error.details.get("problems")
    if rest and isinstance(problems, list) and len(problems) > 1:
        message = "\n".join(plain(str(line)) for line in (heading, *problems))
    else:
        message = plain(" ".join((heading, *rest)))
    line = Text.assemble(("error", "bold red"), f" {error.code}: ", message)
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        from restante.version import __version__

        say(f"restante {__version__}")
        raise typer.Exit


def _restante(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A durable mailbox hub: it keeps each recipient's messages in order until the recipient collects them.

    \b
    restante tour --once            see it work, in a few seconds
    restante serve --data ./data    start a hub; then, against it:
    restante send --recipient alice --text hello
    restante collect alice
    restante explain alice
    restante send part-*.parquet --consignment night-7
    restante consignments list      transactions of many writers
    restante batches list           fan-outs: is everyone done?
    restante feed --follow          the change feed: every change
    restante groups list            consumer groups: how far have they read?
    restante bridge in --topic orders   Kafka topics into mailboxes
    restante backplane show         publishes that go through Kafka
    restante work shop.worker:app   do the actions of an app
    restante poison list shop       actions that could not be done
    restante jobs list              tables and reports, on Spark
    restante health                 is each part of a hub well?
    restante console --hub URL      pages in a browser for a hub
    restante backup night.tar       back up a hub that runs
    restante doctor ./data          check a folder for damage
    """


_ELSEWHERE = {
    "peek": "collect RECIPIENT --no-confirm",
    "dequeue": "collect RECIPIENT",
    "receive": "collect RECIPIENT",
    "publish": "send --recipient RECIPIENT --text TEXT",
    "start": "serve",
    "withdraw": "recipients withdraw RECIPIENT ID",
    "purge": "recipients purge RECIPIENT",
    "erase": "recipients erase RECIPIENT",
}
"""The names that programs and people give to a command, and what the command is."""
_COMMANDS = {
    "serve": "serving",
    "console": "serving",
    "tour": "serving",
    "send": "publishing",
    "collect": "mailboxes",
    "explain": "mailboxes",
    "history": "mailboxes",
    "feed": "feed",
    "work": "work",
    "bench": "partitions",
    "health": "health",
    "doctor": "upkeep",
    "backup": "upkeep",
    "restore": "upkeep",
    "migrate": "upkeep",
    "copy": "upkeep",
}
"""Each command with the folder of its subject."""
_GROUPS = {
    "backplane": "publishing",
    "batches": "batches",
    "bridge": "bridges",
    "consignments": "consignments",
    "groups": "groups",
    "poison": "work",
    "jobs": "jobs",
    "recipients": "mailboxes",
    "sources": "publishing",
    "partitions": "partitions",
    "nodes": "nodes",
    "shards": "nodes",
    "origins": "serving",
    "tokens": "serving",
    "settings": "serving",
}


@cache
def _whole_app() -> typer.Typer:
    return _app((*_COMMANDS, *_GROUPS))


def _app(names: Collection[str]) -> typer.Typer:
    """The command line with these commands."""
    made = typer.Typer(
        name="restante",
        cls=_Group,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=EPILOG,
    )
    made.callback()(_restante)
    for name in (name for name in _COMMANDS if name in names):
        command: Callable[..., Any] = getattr(_home(_COMMANDS[name], name), name)
        made.command(name, epilog=EPILOG, cls=Command)(command)
    for name in (name for name in _GROUPS if name in names):
        made.add_typer(_home(_GROUPS[name], name).app, name=name)
    return made


def _home(subject: str, name: str) -> ModuleType:
    return import_module(f"restante.cli.{subject}.{name}")
