"""`restante consignments`: what many writers have staged for one moment of delivery."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from restante.calls.consignments import CommitConsignment, DiscardConsignment, ListConsignments, ReadConsignment
from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson, Limit, Yes, carried_out
from restante.cli.shared.output import listing, output, print_answer, print_found, print_list, table_of
from restante.model.figures import clock_time, counted, size

if TYPE_CHECKING:
    from restante.client.transport.link import Link
    from restante.model.consignments.consignment_answers import (
        ConsignmentDetails,
        ConsignmentStatus,
        StagedAttempt,
        Winner,
    )
    from restante.model.mailboxes.answers import Receipt

app = command_group("consignments")

ConsignmentName = Annotated[
    str, typer.Argument(metavar="CONSIGNMENT", help="The id or the key of the consignment.", show_default=False)
]


class ConsignmentStateName(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    DISCARDED = "discarded"


@app.callback()
def consignments() -> None:
    """Transactions from many writers: list, show, commit and discard consignments.

    Many writers stage messages in a consignment, and nobody sees them. The commit delivers all of them at one moment,
    exactly once; a discard drops them. The hub discards a consignment that is not used for 24 hours.

    \b
    restante send part-*.parquet --consignment night-7
    restante consignments list --state open
    restante consignments show night-7
    restante consignments commit night-7     what was staged with --no-commit
    restante consignments discard night-7
    """


@at_hub
def list_(
    state: Annotated[
        ConsignmentStateName | None, typer.Option(help="Only consignments in this state.", show_default=False)
    ] = None,
    key: Annotated[str | None, typer.Option(help="Only consignments with this key.", show_default=False)] = None,
    limit: Limit = 20,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """List consignments, the newest first.

    \b
    restante consignments list
    restante consignments list --state open
    restante consignments list --key night-7 --json
    """
    from restante.model.consignments.consignment_answers import ConsignmentState

    wanted = None if state is None else ConsignmentState(state.value)
    found = door.listed(ListConsignments(state=wanted, key=key), lambda page: page.consignments, limit)
    print_list({"consignments": found}, found, _print_list, limit, as_json=as_json)


@at_hub
def show(
    consignment: ConsignmentName,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Show a consignment: its state, and the staged messages of each attempt of each writer.

    A key names the newest consignment that has it.

    \b
    restante consignments show night-7
    restante consignments show $C --json | jq .attempts
    """
    with closing(door.link()) as link:
        found = link.call(ReadConsignment(_id_of(link, consignment)))
    print_found(found, _print_details, as_json=as_json)


@at_hub
def commit(
    consignment: ConsignmentName,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Commit a consignment: deliver its staged messages at one moment, of each writer the highest attempt.

    Use it after staging with --no-commit. The hub does not know whether writers are still at work: make sure that
    none is. Committing again changes nothing, and the answer is the same.

    \b
    restante send part-1.parquet --consignment night-7 --no-commit
    restante send part-2.parquet --consignment night-7 --no-commit
    restante consignments show night-7       is everything staged?
    restante consignments commit night-7
    """
    with closing(door.link()) as link:
        found = link.call(ReadConsignment(_id_of(link, consignment)))
        winners = winners_of(found.attempts)
        receipt = found.receipt or link.call(CommitConsignment(found.id, winners))
    answer = {"id": found.id, "key": found.key, "state": "committed", "receipt": receipt}
    told = f"{found.key} ({found.id}) is committed: {_stored(receipt)}.{_left_out(found, winners)}"
    print_answer(answer, told, as_json=as_json)


@at_hub
def discard(
    consignment: ConsignmentName,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be dropped.")] = False,
    yes: Yes = False,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Discard a consignment: its staged messages are dropped, and nobody has seen them. The key can be used again.

    \b
    restante consignments discard night-7 --dry-run
    restante consignments discard night-7 --yes     without a question
    """
    from restante.model.consignments.consignment_answers import ConsignmentState

    with closing(door.link()) as link:
        found = link.call(ReadConsignment(_id_of(link, consignment)))
        what = _described(found)
        if found.state is ConsignmentState.COMMITTED:
            raise _too_late(found)
        told = f"{found.key} ({found.id}) was discarded before."
        if found.state is ConsignmentState.OPEN:
            discard = partial(link.call, DiscardConsignment(found.id))
            told = carried_out("Discard", "Discarded", what, discard, dry_run=dry_run, yes=yes)
    answer = {"id": found.id, "key": found.key, "discarded": not dry_run, "dry_run": dry_run}
    print_answer(answer, told, as_json=as_json)


def winners_of(attempts: Sequence[StagedAttempt]) -> list[Winner]:
    """The highest attempt of each writer."""
    from restante.model.consignments.consignment_answers import Winner

    highest: dict[str, StagedAttempt] = {}
    for one in attempts:
        if one.writer not in highest or one.attempt > highest[one.writer].attempt:
            highest[one.writer] = one
    return [Winner(writer=one.writer, attempt=one.attempt, messages=one.messages) for one in highest.values()]


def _id_of(link: Link, name: str) -> str:
    """A key may look like an id, so it is looked for as a key first."""
    from restante.errors import ConsignmentUnknown

    found = next(iter(link.call(ListConsignments(key=name, limit=1)).consignments), None)
    if found is not None:
        return found.id
    if not _is_id(name):
        raise ConsignmentUnknown(f"No consignment has the key {name!r}. To see them all: restante consignments list")
    return name


def _is_id(name: str) -> bool:
    from uuid import UUID

    try:
        return str(UUID(name)) == name.lower()
    except ValueError:
        return False


def _too_late(found: ConsignmentStatus) -> Exception:
    from restante.errors import ConsignmentClosed

    return ConsignmentClosed(
        f"{found.key} ({found.id}) was committed: its messages are delivered. Take them back by recipient: "
        "restante recipients withdraw.",
        state=found.state.value,
    )


def _described(found: ConsignmentStatus) -> str:
    staged = f"{counted(found.staged_messages, 'message')} staged ({size(found.staged_bytes)})"
    return f"consignment {found.id} ({found.key}), {found.state.value}, {staged}"


def _stored(receipt: Receipt) -> str:
    skipped = _skipped(receipt)
    return f"{counted(receipt.accepted, 'message')} stored{f', {skipped} skipped' if skipped else ''}"


def _skipped(receipt: Receipt) -> str | None:
    return counted(receipt.duplicates, "duplicate") if receipt.duplicates else None


def _left_out(found: ConsignmentDetails, winners: Sequence[Winner]) -> str:
    """Say for people which staged attempts a commit leaves out."""
    count = len(found.attempts) - len(winners)
    return f" Dropped: {counted(count, 'lower attempt')}." if count else ""


def _print_list(found: Sequence[ConsignmentStatus]) -> None:
    rows = [
        (
            one.key,
            one.state.value,
            f"{one.staged_messages if one.receipt is None else one.receipt.accepted:,}",
            size(one.staged_bytes) if one.closed_at is None else "–",
            clock_time(one.opened_at),
            clock_time(one.closed_at) if one.closed_at else "–",
            one.id,
        )
        for one in found
    ]
    headings = ("key", "state", "messages", "size", "opened", "closed", "consignment")
    whole, spare = ["state", "opened", "closed", "consignment"], ["closed", "size", "opened"]
    nothing = "No such consignment is there."
    listing(headings, rows, nothing=nothing, right=["messages", "size"], whole=whole, spare=spare)


def _print_details(found: ConsignmentDetails) -> None:
    console = output()
    console.print(table_of(("consignment", found.id), _detail_rows(found), whole=[found.id]))
    if found.attempts:
        headings = ("writer", "attempt", "parcels", "messages", "size")
        rows = [
            (one.writer, str(one.attempt), f"{one.parcels:,}", f"{one.messages:,}", size(one.bytes))
            for one in found.attempts
        ]
        console.print(table_of(headings, rows, right=headings[1:]))


def _detail_rows(found: ConsignmentStatus) -> list[tuple[str, str]]:
    """The rows of a consignment; those of what there is not are left out."""
    staged = f"{counted(found.staged_messages, 'message')}, {size(found.staged_bytes)}"
    rows = [
        ("key", found.key),
        ("state", found.state.value),
        ("batch", found.batch),
        ("staged", staged if found.closed_at is None else None),
        ("stored", None if found.receipt is None else counted(found.receipt.accepted, "message")),
        ("skipped", None if found.receipt is None else _skipped(found.receipt)),
        ("opened", clock_time(found.opened_at)),
        ("last activity", clock_time(found.last_activity_at)),
        (found.state.value, clock_time(found.closed_at) if found.closed_at else None),
    ]
    return [(name, value) for name, value in rows if value is not None]


_COMMANDS: dict[str, Callable[..., None]] = {"list": list_, "show": show, "commit": commit, "discard": discard}
for _name, _command in _COMMANDS.items():
    command_of(app, _name)(_command)
