"""`DoorLink`: calls answered by the shards, as if there were one hub here.

A call is about one partition, and its owner answers it; or it is split; or all answer, and it is gathered.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

import msgspec

from restante.calls.actions import ReadAction, ReportEach, SendAction, SendActions
from restante.calls.backplane import ReadBackplane
from restante.calls.batches import AcknowledgeEach, AcknowledgeItems, AddItems, OpenBatch
from restante.calls.call import Answer, Call
from restante.calls.consignments import StageParcel
from restante.calls.homes import home_of_call
from restante.calls.mailboxes import PartitionOf
from restante.calls.nodes import DrainNode, ReadNodes
from restante.calls.publishing import Publish
from restante.calls.shards import ShardCall
from restante.cluster.node_directory import NodeDirectory, ShardProcesses
from restante.cluster.ordered_lines import OrderedLines
from restante.cluster.shard_lines import ShardLines
from restante.errors import InvalidRequest, NotOwner, Unavailable
from restante.hub.backplane.publish_checks import goes_through
from restante.hub.door.in_process_watch import in_thread
from restante.model.access.access import EVERYTHING, Grant
from restante.model.actions.action_answers import AcceptedActions, ActionStatus, OutcomesReported
from restante.model.backplane.backplane_answers import BackplaneStatus
from restante.model.batches.batch_answers import Acknowledged, BatchOpened
from restante.model.batches.items import id_of_request
from restante.model.consignments.consignment_answers import Staged
from restante.model.health.hub_metric import HubMetric
from restante.model.mailboxes.answers import Receipt
from restante.model.mailboxes.list_pages import page_size
from restante.model.publishing.few_or_many import Few
from restante.model.shards.node_answers import NodeDrain, NodeMap
from restante.model.uuid_text import made_ids
from restante.ports.backplane import Backplane
from restante.server.doors.acknowledgement_parts import acknowledge, acknowledge_each
from restante.server.doors.action_parts import (
    messages_of,
    read_action,
    report_each,
    send_action,
    send_actions,
    with_ids,
)
from restante.server.doors.door_backplane import DoorBackplane, read_backplane
from restante.server.doors.gathered_lists import GATHERED
from restante.server.doors.publish_parts import PublishCut, publish_parts
from restante.server.doors.refused_parts import FlawedSend, whole_refusal
from restante.server.doors.stage_parts import stage
from restante.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

_THREADS_MAX = 32


class DoorLink:
    """The asynchronous link of a door. Nothing is kept here that could be lost."""

    def __init__(
        self,
        lines: ShardLines,
        settings: Settings,
        claim_checks: frozenset[str] | None = None,
        directory: NodeDirectory | None = None,
        backplane: Backplane | None = None,
        key: int = 0,
    ) -> None:
        self.lines = lines
        self.directory = directory or ShardProcesses(lines)
        self.backplane = None if backplane is None else DoorBackplane(backplane, lines, settings)
        self.cut = PublishCut(lines, settings, claim_checks, key)
        self.settings = settings
        self.caller = EVERYTHING
        self._threads = ThreadPoolExecutor(_THREADS_MAX, "restante-aio")

    def metrics(self) -> tuple[HubMetric, ...]:
        """The metrics of its way into the backplane, if there is one."""
        return () if self.backplane is None else self.backplane.doorway.metrics()

    def on_behalf_of(self, caller: Grant) -> DoorLink:
        """The link on behalf of a caller who may do what the grant says."""
        if caller is self.caller:
            return self
        seen = object.__new__(type(self))
        seen.__dict__.update(self.__dict__)
        seen.caller = caller
        return seen

    def in_order(self) -> DoorLink:
        """A link for one connection: the sends of the connection to a shard are stored in their order, also after the shard was lost."""
        seen = object.__new__(type(self))
        seen.__dict__.update(self.__dict__)
        seen.lines = OrderedLines(self.lines)
        return seen

    def queues_at_once(self, call: Publish) -> bool:
        return self.cut.goes_as_letters(call)

    async def thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(self._threads, partial(function, *args, **kwargs), _closed)

    async def call(self, call: Call[Answer]) -> Answer:
        own = _OWN_WAYS.get(type(call))
        if own is not None:
            answer: Answer = await own(self, call)
            return answer
        limit = getattr(call, "limit", None)
        if limit is not None:
            page_size(limit)  # A limit that no call may have could not be carried to be refused.
        gathered = GATHERED.get(type(call))
        if gathered is not None:
            found: Answer = await gathered(self.lines, call, self.caller)
            return found
        return await self.lines.call(self._home(call), call, self.caller)

    def _home(self, call: Call[Any]) -> int:
        """The shard that a call is about. If the call names something impossible, the first shard, which refuses it."""
        if isinstance(call, ShardCall):
            raise InvalidRequest("Only the shards of a hub may make this call, to one another.")
        home = home_of_call(call, self.lines.partition_count)
        return 0 if home is None else self.lines.of_partition(home)

    async def close(self) -> None:
        if self.backplane is not None:
            await self.backplane.close()
        self.lines.close()
        self._threads.shutdown(wait=False)


async def _publish(link: DoorLink, call: Publish) -> Receipt:
    if link.backplane is not None:
        receipt = await link.backplane.publish(call, link.cut, link.caller)
        if receipt is not None:
            return receipt
    else:
        goes_through(call, has_backplane=False)
    if call.partition is not None:
        return await _publish_parcel(link, call, call.partition)
    cut = link.cut.few(call, call.sent, link.caller) if isinstance(call.sent, Few) else None
    if cut is None:
        cut = await _cut(link, link.cut.columns, call, link.caller)
    return await publish_parts(link.lines, cut, link.caller)


async def _publish_parcel(link: DoorLink, call: Publish, partition: int) -> Receipt:
    """Send a publish for one partition to its shard. If recipients have their home elsewhere, `check_parcel` raises that."""
    shard = link.lines.of_partition(partition)
    carried: Call[Receipt] | None = link.cut.few_of_parcel(call, partition, link.caller)
    if carried is None:
        carried = await _cut(link, link.cut.parcel, call, partition)
    try:
        return await link.lines.call(shard, carried, link.caller)
    except NotOwner:
        await _cut(link, link.cut.check_parcel, call, partition)
        raise


async def _cut(link: DoorLink, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Have something cut in a thread. If the cut refuses a send, the shards judge it too, so that the refusal names all faults."""
    try:
        return await link.thread(function, *args, **kwargs)
    except FlawedSend as flawed:
        parts = await link.thread(link.cut.judged_parts, flawed)
        raise await whole_refusal(link.lines, flawed, parts, link.caller) from None


async def _read_backplane(link: DoorLink, call: ReadBackplane) -> BackplaneStatus:
    """The answers of the shards, with what this door waits for beside them."""
    found = await read_backplane(link.lines, call, link.caller)
    if link.backplane is None:
        return found
    own = link.backplane.doorway
    return msgspec.structs.replace(found, waiting=found.waiting + own.waiting, lost=found.lost + own.lost)


async def _stage(link: DoorLink, call: StageParcel) -> Staged:
    cut = await _cut(link, link.cut.staged, call, link.caller)
    return await stage(link.lines, call, cut, link.caller)


async def _send_action(link: DoorLink, call: SendAction) -> ActionStatus:
    """Send an action to its shard. If it concerns something impossible, it has no shard, and `check` raises what is wrong."""
    call = msgspec.structs.replace(call, wanted=with_ids([call.wanted])[0])
    try:
        return await send_action(link.lines, call, link.caller)
    except NotOwner:
        sent = SendActions([call.wanted], call.batch, call.carried)
        await link.thread(link.cut.check, messages_of(sent, link.settings))
        raise


async def _send_actions(link: DoorLink, call: SendActions) -> AcceptedActions:
    wanted = with_ids(call.wanted)
    named = msgspec.structs.replace(call, wanted=wanted)
    await link.thread(link.cut.check, messages_of(named, link.settings))
    return await send_actions(link.lines, call, wanted, link.caller)


async def _read_action(link: DoorLink, call: ReadAction) -> ActionStatus:
    return await read_action(link.lines, call, link.caller)


async def _report_each(link: DoorLink, call: ReportEach) -> OutcomesReported:
    return await report_each(link.lines, call, link.caller)


async def _acknowledge(link: DoorLink, call: AcknowledgeItems) -> Acknowledged:
    return await acknowledge(link.lines, call, link.caller)


async def _acknowledge_each(link: DoorLink, call: AcknowledgeEach) -> tuple[Acknowledged, ...]:
    return await acknowledge_each(link.lines, call, link.caller)


async def _open_batch(link: DoorLink, call: OpenBatch) -> BatchOpened:
    """The id is made here, so that the call may be carried again; with a key it has the home of the key."""
    if call.batch_id is None:
        own = id_of_request(call.request_id or _made_id(), call.key, link.lines.partition_count)
        call = msgspec.structs.replace(call, batch_id=own, request_id=None)
    return await link.lines.call(link._home(call), call, link.caller)  # noqa: SLF001 - of this module


async def _add_items(link: DoorLink, call: AddItems) -> Any:  # noqa: ANN401 - what the call answers
    if call.request_id is None:
        call = msgspec.structs.replace(call, request_id=_made_id())
    return await link.lines.call(link._home(call), call, link.caller)  # noqa: SLF001 - of this module


def _closed() -> Unavailable:
    return Unavailable("The hub is closed.")


def _made_id() -> str:
    (made,) = made_ids(1, os.urandom, time.time_ns() // 1_000_000)
    return made


async def _partition_of(link: DoorLink, call: PartitionOf) -> int:
    """The first shard refuses what no recipient can be called; where the others live, each knows."""
    home = home_of_call(call, link.lines.partition_count)
    return await link.lines.call(0 if home is None else link.lines.of_partition(home), call, link.caller)


async def _nodes(link: DoorLink, _: ReadNodes) -> NodeMap:
    return await link.directory.read(link.caller)


async def _drain(link: DoorLink, call: DrainNode) -> NodeDrain:
    return await link.directory.drain(call)


_OWN_WAYS: Mapping[type[Call[Any]], Callable[[DoorLink, Any], Awaitable[Any]]] = {
    Publish: _publish,
    ReadBackplane: _read_backplane,
    StageParcel: _stage,
    SendAction: _send_action,
    SendActions: _send_actions,
    ReadAction: _read_action,
    ReportEach: _report_each,
    AcknowledgeItems: _acknowledge,
    AcknowledgeEach: _acknowledge_each,
    OpenBatch: _open_batch,
    AddItems: _add_items,
    PartitionOf: _partition_of,
    ReadNodes: _nodes,
    DrainNode: _drain,
}
