"""`restante batches status`, `pending`, `progress` and `list`: how far batches are, and who holds them up."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import partial
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson, Limit
from restante.cli.shared.output import listing, output, print_answer, print_json, print_list, table_of
from restante.cli.shared.plain import say
from restante.model.figures import clock_time, counted

if TYPE_CHECKING:
    from rich.table import Table

    from restante.model.batches.batch_answers import BatchStatus, Delivery, RecipientProgress

BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="The batch's id.", show_default=False)]


class BatchStateName(Enum):
    OPEN = "open"
    SEALED = "sealed"
    COMPLETE = "complete"


@at_hub
def status(
    batch: BatchId,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Show a batch: its state, the counts of its items, and who was notified of its completion.

    \b
    restante batches status $B
    restante batches status $B --json | jq .pending
    """
    with door.open() as opened:
        found = opened.batches.get(batch).status()
    print_answer(found, partial(_print_status, found), as_json=as_json)


@at_hub
def pending(
    batch: BatchId,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Print the items that are not acknowledged, a line each.

    Messages that are bound to the batch are not listed; `restante batches progress` shows them by recipient.

    \b
    restante batches pending $B
    restante batches pending $B --limit 1000000 > left.txt
    """
    with door.open() as opened:
        found = opened.batches.get(batch)
        items = list(islice(found.pending(), limit + 1))
        waiting = found.status().pending if len(items) <= limit else 0
    if as_json:
        print_json({"id": batch, "items": items[:limit], "more": len(items) > limit})
    else:
        say(*items[:limit], sep="\n", end="\n" if items else "")
        _print_left(len(items), waiting, limit)


def _print_left(items: int, waiting: int, limit: int) -> None:
    """Beside the items, which are for programs."""
    if items > limit:
        say("There are more: give a higher --limit.", file=sys.stderr)
    elif waiting > items:
        say(f"{counted(waiting - items, 'message')} bound to it: see restante batches progress.", file=sys.stderr)
    elif not items:
        say("Nothing is pending.", file=sys.stderr)


@at_hub
def progress(
    batch: BatchId,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only recipients that have not collected all.")] = False,
    limit: Limit = 20,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Show the progress of a batch by recipient: who has collected and who has not, most waiting first.

    \b
    restante batches progress $B
    restante batches progress $B --waiting --limit 100
    restante batches progress $B --json
    """
    with door.open() as opened:
        found, count, late = held_up(opened.batches.get(batch).progress(waiting=waiting), limit)
    if as_json:
        print_json({"id": batch, "recipients": found, "recipient_count": count, "late_count": late})
        return
    console = output()
    if found:
        console.print(progress_table(found))
    console.print(_how_many(late, None if waiting else count))


def _how_many(late: int, count: int | None) -> str:
    """`count` is not known where only the late ones were asked for."""
    if count == 0:
        return "No message is bound to it."
    if late == 0:
        return "Everyone has collected everything."
    of_all = "" if count is None else f" of {count:,}"
    return (
        f"{late:,}{of_all} {'recipient has' if (count or late) == 1 else 'recipients have'} not collected everything."
    )


def held_up(recipients: Iterable[RecipientProgress], limit: int) -> tuple[list[RecipientProgress], int, int]:
    """The recipients with most left, how many recipients there are in all, and how many have something left. All pass by, few are kept."""
    count = late = 0

    def passing() -> Iterable[RecipientProgress]:
        nonlocal count, late
        for one in recipients:
            count += 1
            late += _left(one) > 0
            yield one

    return nlargest(limit, passing(), key=_left), count, late


def _left(one: RecipientProgress) -> int:
    return one.waiting + one.set_aside + one.duplicates_waiting


@at_hub
def list_(
    state: Annotated[
        BatchStateName | None, typer.Option(help="Only batches in this state.", show_default=False)
    ] = None,
    key: Annotated[str | None, typer.Option(help="Only batches with this key.", show_default=False)] = None,
    limit: Limit = 20,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """List batches, the newest first.

    \b
    restante batches list
    restante batches list --state sealed
    restante batches list --key nightly --limit 1 --json
    """
    from restante.model.batches.batch_answers import BatchState

    wanted = None if state is None else BatchState(state.value)
    with door.open() as opened:
        found = list(islice(opened.batches.list(state=wanted, key=key), limit))
    print_list({"batches": found}, found, _print_list, limit, as_json=as_json)


def _print_list(found: Sequence[BatchStatus]) -> None:
    rows = [
        (
            one.id,
            one.key or "–",
            one.state.value,
            f"{one.items:,}",
            f"{one.pending:,}",
            clock_time(one.opened_at),
            clock_time(one.completed_at) if one.completed_at else "–",
        )
        for one in found
    ]
    headings = ("batch", "key", "state", "items", "pending", "opened", "completed")
    whole, spare = ["batch", "state", "opened", "completed"], ["completed", "opened", "items"]
    nothing = "No such batch is there."
    listing(headings, rows, nothing=nothing, right=["items", "pending"], whole=whole, spare=spare)


def described(found: BatchStatus) -> str:
    """A batch as a question names it: which one, and how far it is."""
    named = "" if found.key is None else f" ({found.key})"
    return f"batch {found.id}{named}, {found.state.value}, {found.pending:,} of {found.items:,} items pending"


def _print_status(found: BatchStatus) -> None:
    console = output()
    console.print(table_of(("batch", found.id), _status_rows(found), whole=[found.id]))
    if found.deliveries:
        console.print(_deliveries(found.deliveries))


def _status_rows(found: BatchStatus) -> list[tuple[str, str]]:
    """The rows of a status; those of what there never was are left out."""
    done = [(name, getattr(found, name)) for name in ("acknowledged", "collected", "expired", "withdrawn")]
    repeated = [("duplicates", found.duplicates), ("duplicates waiting", found.duplicates_waiting)]
    times = [("opened", found.opened_at), ("sealed", found.sealed_at), ("completed", found.completed_at)]
    return [
        ("key", found.key or "–"),
        ("state", found.state.value),
        ("counting", found.counting.value),
        ("items", f"{found.items:,}"),
        ("pending", f"{found.pending:,}"),
        *((name, f"{count:,}") for name, count in (*done, *repeated) if count),
        *((name, clock_time(moment)) for name, moment in times if moment is not None),
    ]


def _deliveries(deliveries: Sequence[Delivery]) -> Table:
    rows = [
        (
            one.to,
            f"{one.attempts:,}",
            clock_time(one.delivered_at) if one.delivered_at else "–",
            clock_time(one.next_attempt_at) if one.next_attempt_at else "–",
            one.problem or "",
        )
        for one in deliveries
    ]
    headings = ("told", "attempts", "delivered", "next attempt", "problem")
    return table_of(headings, rows, right=["attempts"], whole=["delivered", "next attempt"])


def progress_table(recipients: Sequence[RecipientProgress]) -> Table:
    """The table of progress by recipient, with the columns that some recipients need."""
    always = ("waiting", "collected")
    seldom = ("set_aside", "expired", "withdrawn", "duplicates_waiting")
    columns = [*always, *(name for name in seldom if any(getattr(one, name) for one in recipients))]
    rows = [
        (
            one.recipient,
            *(f"{getattr(one, name):,}" for name in columns),
            clock_time(one.oldest_waiting) if one.oldest_waiting else "–",
        )
        for one in recipients
    ]
    numbers = [name.replace("_", " ") for name in columns]
    return table_of(("recipient", *numbers, "oldest waiting"), rows, right=numbers, whole=["oldest waiting"])
