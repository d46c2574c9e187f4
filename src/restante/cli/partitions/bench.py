"""`restante bench`: how fast is this hub, from here?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson
from restante.cli.shared.output import output, print_answer, progress_bar, table_of
from restante.model.columns.plain_text import plain
from restante.model.figures import duration

if TYPE_CHECKING:
    from restante.cli.partitions.measurements import Measured


@at_hub
def bench(
    messages: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many messages in bulk.")] = 51_200,
    small: Annotated[int, typer.Option(min=1, max=100_000, help="How many publishes of one message.")] = 500,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Measure a hub for a few seconds: publish in bulk, publish one by one, peek and dequeue; messages of 200 bytes.

    The command uses mailboxes of its own and erases them at the end, so it needs an operator's token if the hub asks
    for tokens. One thread measures; the figures are of this machine, this connection and this moment.

    \b
    restante bench
    restante bench --hub https://hub.example.org --small 2000
    restante bench --data ./data --json
    """
    from restante.cli.partitions.measurements import measure

    with door.open(create=False) as opened, progress_bar() as bar:
        task = bar.add_task(f"measuring {door.where}", total=None, note="")
        found = measure(opened, messages, small, lambda name: bar.update(task, note=name))
    answer = {"hub": door.where, "measured": [one.as_answer() for one in found]}
    print_answer(answer, partial(_print, door.where, found), as_json=as_json)


def _print(where: str, found: list[Measured]) -> None:
    headings = ("what", "calls", "messages", "p50", "p99", "rate")
    rows = [
        (
            one.what,
            f"{len(one.seconds):,}",
            f"{one.messages:,}",
            _short(one.percentile(50)),
            _short(one.percentile(99)),
            f"{one.rate:,.0f} a second",
        )
        for one in found
    ]
    console = output()
    console.print(table_of(headings, rows, right=headings[1:], whole=headings[:1]))
    total = sum(sum(one.seconds) for one in found)
    console.print(f"{plain(where)}, from here, in {duration(total)}.", soft_wrap=True)


def _short(seconds: float) -> str:
    return f"{seconds * 1_000:,.2f} ms"
