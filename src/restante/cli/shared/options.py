"""The options and arguments that several commands share, beside those that say which hub; and problems with their values.

The parser's own words about a wrong value speak of its insides: `reword` says it in ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from restante.model.columns.plain_text import plain

AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
HubFolder = Annotated[
    Path, typer.Option("--data", metavar="FOLDER", file_okay=False, help="The data folder of the hub.")
]
Limit = Annotated[int, typer.Option(min=1, max=1_000_000, help="How many at most.")]
NewFolder = Annotated[
    Path, typer.Option("--data", metavar="FOLDER", file_okay=False, help="The data folder; made if need be.")
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="ADDRESS",
        envvar="RESTANTE_STORE_URL",
        help="The database to use instead of a folder: postgresql://user@host/database. Its password: PGPASSWORD.",
        show_default=False,
    ),
]
OnlyOrigins = Annotated[list[str] | None, typer.Option("--origin", help="Only this origin; may be given again.")]
OnlyOriginGroups = Annotated[
    list[str] | None, typer.Option("--group", help="Only this origin group; may be given again.")
]
RecipientName = Annotated[str, typer.Argument(metavar="RECIPIENT", help="The recipient.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


_AS_IT_COMES = "As it comes"
CollectLive = Annotated[
    bool,
    typer.Option(
        "--live",
        help="Print messages as they arrive, and confirm nothing, until Ctrl-C.",
        rich_help_panel=_AS_IT_COMES,
    ),
]
After = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="NUMBER",
        help="With --live: begin after this number; 0 begins with all of history. Default: only new messages.",
        show_default=False,
        rich_help_panel=_AS_IT_COMES,
    ),
]
Chat = Annotated[
    bool,
    typer.Option(
        "--live",
        help="Chat: send each typed line to --recipient, and print the messages for --me.",
        rich_help_panel=_AS_IT_COMES,
    ),
]
Me = Annotated[
    str | None,
    typer.Option(metavar="RECIPIENT", help="With --live: your own mailbox.", rich_help_panel=_AS_IT_COMES),
]


class Format(Enum):
    """The format of a file of messages."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"


def is_meant(question: str, *, yes: bool) -> bool:
    """Asks on standard error, unless --yes was said; no is the end of the command."""
    return yes or typer.confirm(plain(question), abort=True, err=True)


def carried_out(verb: str, done: str, what: str, carry_out: Callable[[], object], *, dry_run: bool, yes: bool) -> str:
    """Have something done that is meant, and tell it in a sentence; of a dry run, tell what would be done."""
    if dry_run:
        return f"Would {verb.lower()} {what}."
    if is_meant(f"{verb} {what}?", yes=yes):
        carry_out()
    return f"{done} {what}."


_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "int_parsing": lambda _: "a whole number",
    "int_from_float": lambda _: "a whole number",
    "float_parsing": lambda _: "a number",
    "finite_number": lambda _: "a number",
    "greater_than_equal": lambda bounds: f"at least {bounds['ge']:,}",
    "less_than_equal": lambda bounds: f"at most {bounds['le']:,}",
}
_CHOICES = re.compile(r".* is not one of (?P<choices>.*)\.$", re.DOTALL)
_SHOWN_CHARACTERS_MAX = 80


MISTAKES: Any = typer.BadParameter.__base__
"""The errors of the parser of command lines. Typer itself names only one kind of them."""


def reword(error: Any) -> None:  # noqa: ANN401 - one of `MISTAKES`
    """Put the error in our words, if it is a known one of the parser; and into lines that take no effect on a terminal."""
    errors = getattr(error.__cause__, "errors", None)
    found: list[dict[str, Any]] = errors() if callable(errors) else []
    expected = _expected(found[0]) if found else None
    if expected is not None:
        given = repr(found[0]["input"])[:_SHOWN_CHARACTERS_MAX]
        error.message = f"it must be {expected}, not {given}."
    error.message = "\n".join(map(plain, error.message.splitlines()))


def _expected(fault: Mapping[str, Any]) -> str | None:
    kind: str = fault["type"]
    if kind in _WORDS:
        return _WORDS[kind](fault.get("ctx", {}))
    if kind.startswith("datetime"):
        return "a time such as 2030-01-31T12:00:00"
    choices = _CHOICES.fullmatch(fault["msg"])
    return f"one of {choices['choices']}" if choices else None
