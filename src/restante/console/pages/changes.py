"""Changes: what each would do, in numbers, and the doing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from restante.console.pages.shown_answers import ShownMessage, ShownTokens
from restante.console.view.figures import counted
from restante.console.view.markup import Child, Markup, at, tag
from restante.console.view.tables import badge
from restante.console.web.console_routes import May
from restante.console.web.visits import ConsoleVisitor, Visit
from restante.errors import InvalidRequest
from restante.model.actions.action_answers import ActionStatus
from restante.model.batches.batch_answers import BatchStatus
from restante.model.consignments.consignment_answers import ConsignmentDetails
from restante.model.groups.group_answers import GroupPartition, GroupStatus
from restante.model.jobs.job_answers import JobStatus
from restante.model.mailboxes.answers import Explanation


class Prospect(NamedTuple):
    """The effects that a change would have."""

    title: str
    effect: Child
    """The effect of the change, in numbers."""
    typed: str
    """The text that the visitor must type."""
    back: str
    hint: Child = None
    fields: Child = None
    """Further fields that the visitor may fill in."""
    vain: bool = False
    """Whether the change would do nothing, so that the page does not offer it."""


Look = Callable[[Visit, dict[str, str]], Awaitable[Prospect]]
Act = Callable[[Visit, dict[str, str]], Awaitable[int | None]]


@dataclass(frozen=True, slots=True)
class ConsoleChange:
    """One change: its dry run, and the doing."""

    look: Look
    act: Act
    names: tuple[str, ...]
    """The names of its fields."""
    label: str
    may: May = lambda visitor: visitor.operates
    optional: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    danger: bool = True


def said(change: ConsoleChange, given: dict[str, str]) -> dict[str, str]:
    """The fields of a change, and nothing else; a missing one is refused."""
    kept = dict(change.defaults) | {name: given[name] for name in (*change.names, *change.optional) if given.get(name)}
    for name in change.names:
        if name not in kept:
            raise InvalidRequest(f"{name} is missing. Begin at the page of what you want to change.")
    return kept


# Mailboxes


async def _look_at_purge(visit: Visit, told: dict[str, str]) -> Prospect:
    name = told["recipient"]
    removed = await visit.hub.do("POST", "recipients", name, "purge", body={**_filters(told), "dry_run": True})
    count = int(removed["messages"])
    which = " and ".join(f"{key} {told[key]}" for key in ("origin", "kind") if key in told)
    effect = (
        tag("b", counted(count, "message")),
        f" of {name}",
        f" with {which}" if which else "",
        " would be withdrawn: what waits, and what is set aside. Messages in an open bundle stay. History keeps them.",
    )
    fields = tag(
        "div",
        _field("origin", "Only of this origin", told.get("origin", "")),
        _field("kind", "Only of this kind", told.get("kind", "")),
        tag("button", "Count again", name="again", value="yes", formnovalidate=True),
        class_="controls",
    )
    return Prospect("Purge a mailbox", effect, name, at("recipients", name), fields=fields, vain=count == 0)


def _field(name: str, label: str, value: str) -> Markup:
    return tag("label", label, tag("input", type="text", name=name, value=value, autocomplete="off"))


def _filters(told: dict[str, str]) -> dict[str, object]:
    return {key: told[key] for key in ("origin", "kind") if key in told}


async def _purge(visit: Visit, told: dict[str, str]) -> int:
    filters = _filters(told)
    done = await visit.hub.do("POST", "recipients", told["recipient"], "purge", body=filters or {"all": True})
    return int(done["messages"])


async def _look_at_erase(visit: Visit, told: dict[str, str]) -> Prospect:
    name = told["recipient"]
    removed = await visit.hub.do("DELETE", "recipients", name, dry_run=True)
    count = int(removed["messages"])
    effect = tag("b", counted(count, "message")), f" of {name} would be erased for good, history and open bundles too. "
    hint = "Nothing brings them back, except a backup."
    return Prospect("Erase a mailbox", effect, name, at("recipients", name), hint, vain=count == 0)


async def _erase(visit: Visit, told: dict[str, str]) -> int:
    return int((await visit.hub.do("DELETE", "recipients", told["recipient"]))["messages"])


_MESSAGE_CHANGES = {
    "withdraw": ("Withdraw a message", "would be taken back: nobody gets it any more. History keeps it."),
    "set-aside": ("Set a message aside", "would not be delivered until it is released. What comes after it goes on."),
    "release": ("Release a message", "would be delivered after all: in its place, or at the end if that has passed."),
}


def _look_at_message(change: str) -> Look:
    title, what = _MESSAGE_CHANGES[change]

    async def look(visit: Visit, told: dict[str, str]) -> Prospect:
        name, own = told["recipient"], told["id"]
        found = await visit.hub.get(ShownMessage, "recipients", name, "messages", own)
        effect = (
            tag("b", "1 message"),
            f" of {name} ({found.kind} of {found.origin}, now ",
            badge(found.state),
            f") {what}",
        )
        taken = await visit.hub.get(Explanation, "recipients", name, "explain")
        is_open = any(bundle.origin == found.origin for bundle in taken.open_bundles)
        hint = "A bundle of this origin is open. If the message is in it, this is refused until the bundle is dequeued."
        return Prospect(title, effect, name, at("recipients", name, "messages", own), hint if is_open else None)

    return look


def _act_on_message(change: str) -> Act:
    async def act(visit: Visit, told: dict[str, str]) -> None:
        where = ("recipients", told["recipient"], "messages", told["id"])
        if change == "withdraw":
            await visit.hub.do("DELETE", *where)
        else:
            await visit.hub.do("POST", *where, change)

    return act


# Batches and consignments


async def _look_at_batch(visit: Visit, told: dict[str, str]) -> Prospect:
    found = await visit.hub.get(BatchStatus, "batches", told["batch"])
    effect = (
        tag("b", "1 batch"),
        f" with {counted(found.items, 'item')}, of which {counted(found.pending, 'is', 'are')} pending, would be forgotten. Its messages stay; nobody is told when they are collected.",
    )
    return Prospect("Delete a batch", effect, found.key or found.id, at("batches", found.id))


async def _delete_batch(visit: Visit, told: dict[str, str]) -> None:
    await visit.hub.do("DELETE", "batches", told["batch"])


async def _look_at_consignment(visit: Visit, told: dict[str, str]) -> Prospect:
    found = await visit.hub.get(ConsignmentDetails, "consignments", told["consignment"])
    effect = (
        tag("b", counted(found.staged_messages, "staged message")),
        f" of {counted(len(found.attempts), 'attempt')} would be dropped. Nobody has seen them yet. Its key may be opened again.",
    )
    return Prospect(
        "Discard a consignment", effect, found.key, at("consignments", found.id), vain=found.state.value != "open"
    )


async def _discard(visit: Visit, told: dict[str, str]) -> None:
    await visit.hub.do("DELETE", "consignments", told["consignment"])


# Groups


async def _group(visit: Visit, told: dict[str, str]) -> GroupStatus:
    return await visit.hub.get(GroupStatus, "groups", told["group"])


async def _look_at_reset(visit: Visit, told: dict[str, str]) -> Prospect:
    found = await _group(visit, told)
    to = told["to"]
    chosen = _chosen(found, told)
    numbers = sum(abs((one.end if to == "end" else 0) - one.position) for one in chosen)
    way = "skipped" if to == "end" else "read again, as far back as the feed reaches"
    effect = (
        tag("b", counted(len(chosen), "partition")),
        f" of {found.group}: up to ",
        tag("b", counted(numbers, "number")),
        f" would be {way}.",
    )
    options = [
        tag("option", label, value=value, selected=value == to)
        for value, label in (
            ("end", "To the end: skip what is unread"),
            ("beginning", "To the beginning: read all again"),
        )
    ]
    fields = tag(
        "div",
        tag("label", "Where to", tag("select", options, name="to")),
        _field("partition", "Only this partition", told.get("partition", "")),
        tag("button", "Count again", name="again", value="yes", formnovalidate=True),
        class_="controls",
    )
    return Prospect("Reset a group", effect, found.group, at("groups", found.group), fields=fields, vain=not chosen)


def _chosen(found: GroupStatus, told: dict[str, str]) -> list[GroupPartition]:
    wanted = told.get("partition")
    return [one for one in found.partitions if wanted is None or str(one.partition) == wanted]


async def _reset(visit: Visit, told: dict[str, str]) -> None:
    for one in _chosen(await _group(visit, told), told):
        await visit.hub.do(
            "POST",
            "groups",
            told["group"],
            "positions",
            str(one.partition),
            "reset",
            body={"to": told["to"]},
        )


def _look_at_group(title: str, what: str) -> Look:
    async def look(visit: Visit, told: dict[str, str]) -> Prospect:
        found = await _group(visit, told)
        members = counted(len(found.members), "member")
        effect = tag("b", members), f" and a lag of {counted(found.lag, 'number')}: {what}"
        return Prospect(title, effect, found.group, at("groups", found.group))

    return look


def _act_on_group(verb: str) -> Act:
    async def act(visit: Visit, told: dict[str, str]) -> None:
        if verb == "delete":
            await visit.hub.do("DELETE", "groups", told["group"])
        else:
            await visit.hub.do("POST", "groups", told["group"], verb)

    return act


# Poison


def _look_at_poison(title: str, what: str) -> Look:
    async def look(visit: Visit, told: dict[str, str]) -> Prospect:
        given = {"concerns": told.get("concerns"), "redirect": False}
        found = await visit.hub.get(ActionStatus, "actions", told["id"], **given)
        tried = f"{counted(found.attempts, 'attempt')}, now "
        effect = (
            tag("b", "1 action"),
            f" {found.action} of {found.concerns} ({tried}",
            badge(found.state.value),
            f") {what}",
        )
        return Prospect(title, effect, found.action, at("groups", told["group"], "poison"))

    return look


def _act_on_poison(method: str, *more: str) -> Act:
    async def act(visit: Visit, told: dict[str, str]) -> None:
        await visit.hub.do(method, "groups", told["group"], "poison", told["id"], *more, concerns=told.get("concerns"))

    return act


async def _look_at_job(visit: Visit, told: dict[str, str]) -> Prospect:
    found = await visit.hub.get(JobStatus, "jobs", told["job"])
    effect = (
        tag("b", counted(found.runs, "run")),
        f" of {found.job} would be forgotten, with their reports. If it runs once more, it is there again.",
    )
    return Prospect("Forget a job", effect, found.job, at("jobs", found.job))


async def _forget_job(visit: Visit, told: dict[str, str]) -> None:
    await visit.hub.do("DELETE", "jobs", told["job"])


# Nodes


async def _look_at_drain(visit: Visit, told: dict[str, str]) -> Prospect:
    name = told["node"]
    left = await visit.hub.do("POST", "nodes", name, "drain", dry_run=True)
    count = len(left["shards"])
    effect = (
        tag("b", counted(count, "shard")),
        f" of {name} would go to other nodes, one after the other, and calls wait meanwhile. From then on the node takes no shard.",
    )
    return Prospect("Drain a node", effect, name, at("nodes"), "When it has none, it may be ended, or started again.")


async def _drain(visit: Visit, told: dict[str, str]) -> int:
    return len((await visit.hub.do("POST", "nodes", told["node"], "drain"))["shards"])


# Tokens and housekeeping

_TOKENS_ASKED = 1_000
"""The newest tokens are asked for to say what one is for: so many."""


async def _look_at_token(visit: Visit, told: dict[str, str]) -> Prospect:
    found = await visit.hub.get(ShownTokens, "tokens", limit=_TOKENS_ASKED)
    what = [", ".join((*one.roles, one.note)).removesuffix(", ") for one in found.tokens if one.id == told["token"]]
    said = f" ({what[0]})" if what else ""
    effect = (
        tag("b", "1 token"),
        f"{said} would be worth nothing within a second, for good. Connections that it opened end.",
    )
    return Prospect("Revoke a token", effect, told["token"], at("tokens"))


async def _revoke(visit: Visit, told: dict[str, str]) -> None:
    await visit.hub.do("DELETE", "tokens", told["token"])


_UPKEEP = {
    "file": "Runs of messages that were published would be merged now. The hub does so by itself.",
    "expire": "Messages that have expired would be settled now. The hub does so by itself.",
    "retain": "Messages past their retention would leave history now. The hub does so by itself.",
}


def _look_at_upkeep(name: str) -> Look:
    async def look(_visit: Visit, _told: dict[str, str]) -> Prospect:
        return Prospect(f"Housekeeping now: {name}", _UPKEEP[name], name, at("settings"))

    return look


def _keep_house(name: str) -> Act:
    async def act(visit: Visit, _told: dict[str, str]) -> int:
        return int((await visit.hub.do("POST", "maintenance", name))["count"])

    return act


def _publishes(visitor: ConsoleVisitor) -> bool:
    return visitor.has("publisher")


CHANGES: dict[str, ConsoleChange] = {
    "purge": ConsoleChange(_look_at_purge, _purge, ("recipient",), "Purge", optional=("origin", "kind")),
    "erase": ConsoleChange(_look_at_erase, _erase, ("recipient",), "Erase for good"),
    **{
        name: ConsoleChange(_look_at_message(name), _act_on_message(name), ("recipient", "id"), label, danger=name == "withdraw")
        for name, label in (("withdraw", "Withdraw"), ("set-aside", "Set aside"), ("release", "Release"))
    },
    "delete-batch": ConsoleChange(_look_at_batch, _delete_batch, ("batch",), "Delete", may=_publishes),
    "discard": ConsoleChange(_look_at_consignment, _discard, ("consignment",), "Discard", may=_publishes),
    "reset": ConsoleChange(_look_at_reset, _reset, ("group",), "Reset", optional=("to", "partition"), defaults={"to": "end"}),
    "pause": ConsoleChange(
        _look_at_group("Pause a group", "members keep their partitions and get nothing until it goes on."),
        _act_on_group("pause"), ("group",), "Pause", danger=False,
    ),
    "resume": ConsoleChange(
        _look_at_group("Let a group go on", "members get changes again."),
        _act_on_group("resume"), ("group",), "Go on", danger=False,
    ),
    "delete-group": ConsoleChange(
        _look_at_group("Delete a group", "its positions would be forgotten, and its members sent away."),
        _act_on_group("delete"), ("group",), "Delete",
    ),
    "retry": ConsoleChange(
        _look_at_poison("Do an action again", "would be done again, at the end of what waits, with a fresh count."),
        _act_on_poison("POST", "again"), ("group", "id"), "Do again", optional=("concerns",), danger=False,
    ),
    "give-up": ConsoleChange(
        _look_at_poison("Give an action up", "would count as failed, and never be done."),
        _act_on_poison("DELETE"), ("group", "id"), "Give up", optional=("concerns",),
    ),
    "forget-job": ConsoleChange(_look_at_job, _forget_job, ("job",), "Forget"),
    "drain": ConsoleChange(_look_at_drain, _drain, ("node",), "Drain"),
    "revoke": ConsoleChange(_look_at_token, _revoke, ("token",), "Revoke"),
    **{
        name: ConsoleChange(_look_at_upkeep(name), _keep_house(name), (), "Do it now", danger=False) for name in _UPKEEP
    },
}  # fmt: skip
