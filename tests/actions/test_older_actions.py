"""Data of before: messages of the kind `action` that waited as mail become actions when it is brought forward."""

from __future__ import annotations

from functools import partial

import msgspec

from restante.assembly import open_hub
from restante.calls.mailboxes import ListPartitions, Peek
from restante.calls.publishing import Publish
from restante.hub.doctor.doctor import examine
from restante.hub.engine.partitions import PARTITION_KEY, Deed, PartitionRow, encode_counters, put_deed
from restante.hub.upkeep.migrate import migrate
from restante.model.actions.action_row import ActionState
from restante.model.mailboxes.answers import BundleAnswer
from restante.model.publishing.message import Message
from restante.model.storage.changes import Changes, Space
from restante.stores.memory import MemoryStore
from tests.actions.action_world import ActionWorld
from tests.groups.group_world import QUIET


def older(store: MemoryStore) -> None:
    """Make of it what the version before would have stored: no rows of actions, and all of them waiting as mail."""
    changes = Changes()
    fence = store.raise_fences(QUIET.partition_count)
    for partition in range(QUIET.partition_count):
        changes.fences[partition] = fence
        rows = store.scan(partition, Space.ACTION)
        for space in (Space.ACTION, Space.ACTION_ID):
            for key, _ in store.scan(partition, space):
                changes.delete(partition, space, key)
        value = store.get(partition, Space.PARTITION, PARTITION_KEY)
        if value is not None:
            row = msgspec.msgpack.decode(value, type=PartitionRow)
            row = msgspec.structs.replace(row, waiting=row.waiting + len(rows))
            changes.put(partition, Space.PARTITION, PARTITION_KEY, encode_counters(row))
    deed = msgspec.msgpack.decode(store.get(0, Space.META, b"deed") or b"", type=Deed)
    put_deed(changes, msgspec.structs.replace(deed, format=7))
    store.commit(changes)


def test_what_waited_as_mail_becomes_an_action() -> None:
    store = MemoryStore()
    hub = open_hub(None, settings=QUIET, store=store)
    named = partial(Message, kind="action", properties={"action": "add"})
    hub.call(Publish.of([*(named(recipient=f"t{n}", id=f"a{n}", data=n) for n in range(20))]))
    hub.call(Publish.of([Message(recipient="t1", data="mail"), Message(recipient="t2", kind="action", data=1)]))
    hub.close()
    store = store.survivor()
    older(store)
    migrate(store)
    assert examine(store).sound, examine(store).findings
    world = ActionWorld(store)
    assert sum(own.waiting for own in world.hub.call(ListPartitions())) == 1
    found = world.hub.call(Peek("t1"))
    assert isinstance(found, BundleAnswer)
    assert found.message_count == 1
    assert world.look("a7").state is ActionState.ACCEPTED
    rows = world.handed()
    assert len(rows) == 21
    for row in rows:
        assert world.finish(row).taken == 1
    assert world.look("a7").state is ActionState.DONE
    assert examine(world.hub.core.store).sound
    world.hub.close()
