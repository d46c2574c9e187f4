"""`restante batches`: fan-outs that are tracked item by item, until everyone is done."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.batches.batches_items import ack, add
from restante.cli.batches.batches_show import BatchId, list_, pending, progress, status
from restante.cli.batches.batches_watch import watch
from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson, Yes, carried_out
from restante.cli.shared.output import listing, print_answer, print_json
from restante.cli.shared.plain import say
from restante.model.figures import clock_time

if TYPE_CHECKING:
    from restante.client.surface.surface import Batch
    from restante.model.batches.batch_answers import ReapedBatch, Webhook

app = command_group("batches")


class CountingName(Enum):
    EXACT = "exact"
    ESTIMATED = "estimated"


@app.callback()
def batches() -> None:
    """Count a fan-out of any size exactly, and know when everyone is done.

    Open a batch, add items to it, seal it, and acknowledge the items. A batch is complete when it is sealed and no
    item is pending.

    \b
    B=$(restante batches open --key nightly)
    restante batches add $B 1000 --items > items.txt
    restante batches seal $B
    restante batches ack items.txt
    restante batches status $B
    restante batches watch $B        until it is complete
    """


@at_hub
def open_(
    *,
    key: Annotated[str | None, typer.Option(help="Your own name for the batch.", show_default=False)] = None,
    unique: Annotated[
        bool, typer.Option("--unique", help="Refuse if an open batch has this key already; needs --key.")
    ] = False,
    counting: Annotated[
        CountingName,
        typer.Option(
            help="Exact: each item counts once. Estimated: only a count, which two acknowledgements of one item lower twice."
        ),
    ] = CountingName.EXACT,
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="The URL to call when the batch is complete.", show_default=False)
    ] = None,
    webhook_secret: Annotated[
        str | None,
        typer.Option(
            help="The secret that signs the webhook, whsec_…. Default: the hub makes one.", show_default=False
        ),
    ] = None,
    notify: Annotated[
        str | None,
        typer.Option(
            metavar="RECIPIENT",
            help="The recipient that gets a message when the batch is complete.",
            show_default=False,
        ),
    ] = None,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Open a batch and print its id.

    Standard output has the id alone. If the hub makes the secret of the webhook, the secret is shown once, on standard error.

    \b
    B=$(restante batches open)
    restante batches open --key nightly --unique
    restante batches open --webhook https://example.org/done
    restante batches open --notify alice --json
    """
    if unique and key is None:
        raise typer.BadParameter("--unique is about the key: add --key.", param_hint="--unique")
    told = _webhook(webhook, webhook_secret)
    from restante.model.batches.batch_answers import Counting

    with door.open() as opened:
        batch = opened.batches.open(
            key=key, unique=unique, counting=Counting(counting.value), webhook=told, notify=notify
        )
    _print_new(batch, as_json=as_json)


def _webhook(url: str | None, secret: str | None) -> Webhook | None:
    from restante.model.batches.batch_answers import Webhook

    if url is None and secret is not None:
        raise typer.BadParameter("A secret needs a webhook: add --webhook.", param_hint="--webhook-secret")
    return None if url is None else Webhook(url=url, secret=secret)


def _print_new(batch: Batch, *, as_json: bool) -> None:
    from rich.console import Console

    if as_json:
        print_json({"id": batch.id, "key": batch.key, "state": "open", "webhook_secret": batch.webhook_secret})
        return
    say(batch.id, flush=True)
    if batch.webhook_secret is not None:
        beside = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        beside.print(f"The webhook is signed with {batch.webhook_secret}")
        beside.print("Keep it now: it is not shown again.", style="bold yellow")


@at_hub
def seal(
    batch: BatchId,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Seal a batch: nothing can be added from now on. Sealing it again changes nothing.

    \b
    restante batches seal $B
    """
    with door.open() as opened:
        complete = opened.batches.get(batch).seal()
    told = f"{batch} is sealed{' and complete' if complete else '; it is not complete yet'}."
    print_answer({"id": batch, "complete": complete}, told, as_json=as_json)


@at_hub
def delete(
    batch: BatchId,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    yes: Yes = False,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Delete a batch in any state. Messages that are bound to the batch stay in their mailboxes.

    \b
    restante batches delete $B --dry-run
    restante batches delete $B --yes     without a question
    """
    from restante.cli.batches.batches_show import described

    with door.open() as opened:
        found = opened.batches.get(batch)
        what = described(found.status())
        told = carried_out("Delete", "Deleted", what, found.delete, dry_run=dry_run, yes=yes)
    print_answer({"id": batch, "deleted": not dry_run, "dry_run": dry_run}, told, as_json=as_json)


@at_hub
def reap(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the batches; delete nothing.")] = False,
    *,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Delete unused batches now; the hub also does so by itself from time to time.

    The hub keeps an open batch for 2 hours after its last use, and a sealed batch for 7 days; two settings change
    that. A batch whose messages wait or are set aside is kept.

    \b
    restante batches reap --dry-run
    restante batches reap
    """
    with door.open() as opened:
        gone = tuple(opened.batches.reap(dry_run=dry_run))
    print_answer({"batches": gone, "dry_run": dry_run}, partial(_print_reaped, gone, dry_run=dry_run), as_json=as_json)


def _print_reaped(gone: tuple[ReapedBatch, ...], *, dry_run: bool) -> None:
    if gone:
        rows = [(one.id, one.key or "–", one.state.value, clock_time(one.idle_since)) for one in gone]
        listing(("batch", "key", "state", "not used since"), rows, whole=["batch", "not used since"])
    say(f"{'Would delete' if dry_run else 'Deleted'} {len(gone):,} unused {'batch' if len(gone) == 1 else 'batches'}.")


_COMMANDS: dict[str, Callable[..., None]] = {
    "open": open_,
    "add": add,
    "seal": seal,
    "ack": ack,
    "status": status,
    "pending": pending,
    "progress": progress,
    "watch": watch,
    "list": list_,
    "delete": delete,
    "reap": reap,
}
for _name, _command in _COMMANDS.items():
    command_of(app, _name)(_command)
