"""`restante batches add` and `ack`: the items of a batch, from and to programs that work on them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, NamedTuple

import typer

from restante.cli.batches.batches_show import BatchId
from restante.cli.shared.exits import WRONG
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson
from restante.cli.shared.output import print_json, write_output
from restante.cli.shared.plain import say
from restante.model.figures import counted

if TYPE_CHECKING:
    from restante.client.surface.surface import Hub, Items
    from restante.errors import InvalidItem
    from restante.model.batches.batch_answers import Acknowledged, ItemRange

_AT_ONCE = 10_000
"""The number of lines that are read and acknowledged in a call."""
_LINE_BYTES_MAX = 256
_RANGE = re.compile(r"(?P<group>[^:]*:[^:]*):(?P<start>[0-9]{1,18})-(?P<upto>[0-9]{1,18})", re.ASCII)


@at_hub
def add(
    batch: BatchId,
    count: Annotated[int, typer.Argument(metavar="COUNT", min=1, help="How many items.", show_default=False)],
    items: Annotated[bool, typer.Option("--items", help="Print every item's id, a line each.")] = False,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Add items to a batch, and print them: as ranges, or one by one.

    A range is BATCH:GROUP:FROM-UPTO; the item UPTO is not in it. The ids of its items are BATCH:GROUP:FROM and so on.
    `restante batches ack` takes both.

    \b
    restante batches add $B 1000000000
    restante batches add $B 1000 --items > items.txt
    restante batches add $B 1000 --items | xargs -n 1 work
    """
    if items and as_json:
        raise typer.BadParameter("--items prints lines: leave out --json.", param_hint="--items")
    with door.open() as opened:
        added = opened.batches.get(batch).add(count)
    if as_json:
        _print_groups(batch, added)
    else:
        _print_lines(added if items else map(_text, added.ranges()))


def _print_groups(batch: str, added: Items) -> None:
    print_json({"id": batch, "groups": added.groups})


def _print_lines(lines: Iterable[str]) -> None:
    """Print lines in pieces: there may be very many."""
    rest = iter(lines)
    while piece := list(islice(rest, _AT_ONCE)):
        write_output("".join(f"{line}\n" for line in piece).encode())


@dataclass(slots=True)
class _Done:
    """The sums of all acknowledgements so far."""

    acknowledged: int = 0
    complete: dict[str, str | None] = field(default_factory=dict)
    unknown: list[str | ItemRange] = field(default_factory=list)

    def note(self, answer: Acknowledged) -> None:
        self.acknowledged += answer.acknowledged
        self.complete.update((one.id, one.key) for one in answer.complete)
        self.unknown += answer.unknown


@at_hub
def ack(
    items: Annotated[
        list[str] | None,
        typer.Argument(metavar="ITEM…", help="Ids of items, ranges, files of them, or - for standard input."),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", metavar="RANGE", help="Items FROM to UPTO - 1 of a group; may be given again."),
    ] = None,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Acknowledge items: mark them as done. Acknowledging an item again changes nothing.

    An argument with colons is an item BATCH:GROUP:INDEX, or a range BATCH:GROUP:FROM-UPTO; any other argument is a
    file with one of these on each line. Unknown items are named on standard error, the others are acknowledged, and
    the exit code is 1.

    \b
    restante batches ack $B:0:0 $B:0:7
    restante batches ack --range $B:0:0-1000
    restante batches ack items.txt
    restante batches add $B 10 --items | restante batches ack -
    """
    sources = [_source(text) for text in items or ()]
    if ranges:
        sources.append(_Source(None, [_required_range(text) for text in ranges]))
    if not sources:
        raise typer.BadParameter("Give items, files, - for standard input, or --range.", param_hint="ITEM…")
    done, pieces = _Done(), _pieces(sources)
    # Read the first piece before the hub is opened: until it comes, a command before this one in a pipe may have the folder open.
    begin = list(islice(pieces, 1))
    with door.open() as opened:
        for place, piece in chain(begin, pieces):
            _acknowledge(opened, place, piece, done)
    _print_done(done, as_json=as_json)
    raise typer.Exit(WRONG if done.unknown else 0)


class _Source(NamedTuple):
    """The source of items: a file, or else the command itself."""

    path: Path | None
    given: list[str | ItemRange]


class _Place(NamedTuple):
    """The place where a piece begins; only in files there are lines."""

    file: str | None
    line: int


def _source(text: str) -> _Source:
    if ":" in text:
        return _Source(None, [_parsed(text)])
    path = Path(text)
    if text != "-" and not path.is_file():
        raise typer.BadParameter(f"{text!r} is neither an item nor a file that is there.", param_hint="ITEM…")
    return _Source(path, [])


def _parsed(text: str) -> str | ItemRange:
    """A range if it looks like one, else an item. The hub refuses a text that is no item either."""
    from restante.model.batches.batch_answers import ItemRange

    found = _RANGE.fullmatch(text)
    if found is None:
        return text
    return ItemRange(group=found["group"], start=int(found["start"]), upto=int(found["upto"]))


def _required_range(text: str) -> str | ItemRange:
    parsed = _parsed(text)
    if isinstance(parsed, str):
        raise typer.BadParameter(f"it must be BATCH:GROUP:FROM-UPTO, not {text!r}.", param_hint="--range")
    return parsed


def _pieces(sources: list[_Source]) -> Iterator[tuple[_Place, list[str | ItemRange]]]:
    """The items on the command line in one piece, then those of the files, `_AT_ONCE` at a time."""
    given = [item for source in sources for item in source.given]
    if given:
        yield _Place(None, 0), given
    for path in (source.path for source in sources if source.path is not None):
        with _lines_of(path) as lines:
            line = 1
            while piece := list(islice(lines, _AT_ONCE)):
                yield _Place(str(path), line), piece
                line += len(piece)


@contextmanager
def _lines_of(path: Path) -> Iterator[Iterator[str | ItemRange]]:
    if str(path) == "-":
        yield _parsed_lines(sys.stdin.buffer)
        return
    with path.open("rb") as file:
        yield _parsed_lines(file)


def _parsed_lines(file: IO[bytes]) -> Iterator[str | ItemRange]:
    """No item is so long: of a file of something else, little is read before it is refused."""
    lines = iter(lambda: file.readline(_LINE_BYTES_MAX), b"")
    return (_parsed(line.decode("utf-8", "replace").strip()) for line in lines)


def _acknowledge(hub: Hub, place: _Place, piece: list[str | ItemRange], done: _Done) -> None:
    from restante.errors import InvalidItem

    named = [item for item in piece if item != ""]
    if not named:
        return
    try:
        done.note(hub.batches.acknowledge(named))
    except InvalidItem as error:
        at = "" if place.file is None else f"{place.file}, line {place.line + _index_of(error, piece):,}: "
        error.message = f"{at}{error.message} Items acknowledged before: {done.acknowledged:,}."
        raise


def _index_of(error: InvalidItem, piece: list[str | ItemRange]) -> int:
    """Where the wrong one stands among the lines of its piece."""
    wrong = error.details.get("item")
    return next((index for index, one in enumerate(piece) if wrong in (one, _text(one))), 0)


def _text(one: str | ItemRange) -> str:
    return one if isinstance(one, str) else f"{one.group}:{one.start}-{one.upto}"


def _print_done(done: _Done, *, as_json: bool) -> None:
    if as_json:
        complete = [{"id": identity, "key": key} for identity, key in done.complete.items()]
        print_json({"acknowledged": done.acknowledged, "complete": complete, "unknown": done.unknown})
        return
    say(f"{counted(done.acknowledged, 'item')} acknowledged.")
    for identity, key in done.complete.items():
        say(f"{identity}{f' ({key})' if key else ''} is complete.")
    for one in done.unknown:
        say(f"unknown: {_text(one)}", file=sys.stderr)
