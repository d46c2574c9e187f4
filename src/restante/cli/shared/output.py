"""How the commands show tables, lists, progress, data and answers."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from restante.cli.shared.plain import say
from restante.model.columns.plain_text import plain, plain_output
from restante.model.figures import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from restante.calls.call import Call
    from restante.client.transport.link import Link

from restante.limits import PAGE_MAX

Answer = TypeVar("Answer")
_PIPE_WIDTH = 240
_FOLDED_WIDTH = 16
"""A column that may be broken into lines needs so much room."""
_GAP_WIDTH = 3


Item = TypeVar("Item")
Place = TypeVar("Place", str, int)


class _Page(Protocol):
    @property
    def next(self) -> str | int | None: ...


Page = TypeVar("Page", bound=_Page)


def progress_bar() -> Progress:
    """Bars on standard error, gone when they are done; nothing at all where there is no terminal.

    A task may have a `note`, which stands at the end of its line.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, Task, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Plain(TextColumn):
        def render(self, task: Task) -> Text:
            return Text(plain(self.text_format.format(task=task)))

    console = Console(stderr=True)
    return Progress(
        Plain("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        Plain("{task.fields[note]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def output() -> Console:
    """Standard output, with colours only on a terminal; elsewhere there is room for whole lines."""
    from rich.console import Console

    wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, markup=False, width=_PIPE_WIDTH if wide else None)


def table_of(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = (), whole: Sequence[str] = ()
) -> Table:
    """A plain table; the columns named `right` hold numbers, those named `whole` are not broken into lines."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        if heading in right:
            table.add_column(Text(plain(heading)), justify="right", no_wrap=True)
        else:
            table.add_column(Text(plain(heading)), overflow="fold", no_wrap=heading in whole)
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    return table


def listing(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
    spare: Sequence[str] = (),
    nothing: str | None = None,
) -> None:
    """Print a table. Where there is no room for all columns, those named `spare` are left out, the first one first.

    If there are no rows, `nothing` is said instead.
    """
    if not rows and nothing is not None:
        say(nothing)
        return
    console = output()
    cells = [headings, *([plain(cell) for cell in row] for row in rows)]
    widths = {
        heading: max(map(len, column)) for heading, column in zip(headings, zip(*cells, strict=True), strict=True)
    }
    widths |= {name: min(width, _FOLDED_WIDTH) for name, width in widths.items() if name not in (*right, *whole)}
    for heading in spare:
        if sum(widths.values()) + _GAP_WIDTH * len(widths) <= console.width:
            break
        del widths[heading]
    kept = [number for number, heading in enumerate(headings) if heading in widths]
    shown = [[row[number] for number in kept] for row in rows]
    console.print(table_of([headings[number] for number in kept], shown, right=right, whole=whole))


def print_answer(answer: object, told: str | Callable[[], None], *, as_json: bool) -> None:
    """An answer: as JSON, for programs; or for people, as a line or by what prints it."""
    if as_json:
        print_json(answer)
    elif isinstance(told, str):
        say(told)
    else:
        told()


def print_found(found: Answer, show: Callable[[Answer], None], *, as_json: bool) -> None:
    """An answer that `show` prints for people."""
    print_answer(found, partial(show, found), as_json=as_json)


def print_list(
    answer: object, found: Sequence[Item], show: Callable[[Sequence[Item]], None], limit: int, *, as_json: bool
) -> None:
    """An answer with a list, which `show` prints for people; then how to see more, if the limit has cut it off."""

    def told() -> None:
        show(found)
        print_more(len(found), limit)

    print_answer(answer, told, as_json=as_json)


def print_json(answer: object) -> None:
    """A whole answer, for programs and for people who look."""
    import msgspec

    say(msgspec.json.format(msgspec.json.encode(answer, enc_hook=str), indent=2).decode(), lines=True)


def write_output(content: bytes, *, styled: bool = False) -> None:
    """Write all bytes, or raise. (`print` does not notice when an unbuffered pipe takes only a part.)

    Files and pipes get the exact bytes, terminals no control characters, except the command's own in `styled` content.
    """
    sys.stdout.flush()
    rest = memoryview(plain_output(content) if sys.stdout.isatty() and not styled else content)
    while rest:
        rest = rest[sys.stdout.buffer.write(rest) or 0 :]
    sys.stdout.buffer.flush()


def flush_output_to_disk() -> None:
    """Flush what was printed into a file to the disk."""
    with suppress(OSError, ValueError):
        descriptor = sys.stdout.fileno()
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fsync(descriptor)


def preview(data: bytes, characters: int) -> str:
    """The beginning of some data, harmless for a terminal."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return counted(len(data), "byte")
    shown = "".join(one if one.isprintable() else "\N{MIDDLE DOT}" for one in text[:characters])
    return shown if len(text) <= characters else f"{shown}…"


def gathered(
    read: Callable[[int, Place | None], tuple[Sequence[Item], Place | None]], limit: int, after: Place | None = None
) -> list[Item]:
    """The first items, at most `limit`. `read` is given how many, and after which place; it says where to go on."""
    found: list[Item] = []
    while len(found) < limit:
        items, after = read(min(limit - len(found), PAGE_MAX), after)
        found += items
        if after is None:
            break
    return found


def listed(link: Link, call: Call[Page], rows: Callable[[Page], Sequence[Item]], limit: int) -> list[Item]:
    """The first `rows` that a call lists page by page."""

    def read(count: int, after: Any) -> tuple[Sequence[Item], Any]:  # noqa: ANN401 - a text or a number, as the call has it
        page = link.call(msgspec.structs.replace(call, limit=count, after=after))
        return rows(page), page.next

    return gathered(read, limit)


def print_more(count: int, limit: int, how: str = "give a higher --limit.") -> None:
    """How to see more, if the limit has cut the list off."""
    if count == limit:
        say(f"There may be more: {how}")
