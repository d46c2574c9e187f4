"""A hub that has lived: something of everything in it, begun and not finished, which goes on after its shards have changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import restante
from restante import PartitionPublishingConfiguration, ProducerClient
from restante.client.surface.sync import Hub
from restante.model.batches.batch_answers import BatchState
from tests.cluster.test_doors import names

EVERYBODY = [name for shard in range(4) for name in names(shard, 2)]


class Kept(NamedTuple):
    """What its clients remember."""

    numbering: Mapping[int, PartitionPublishingConfiguration]
    group_positions: Mapping[int, int]


def letters(text: str) -> list[restante.Message]:
    return [restante.Message(recipient=name, text=text, id=f"{text} {name}") for name in EVERYBODY]


def begin(hub: Hub) -> Kept:
    """Mail of which some is collected; batches open, sealed and complete; consignments; a numbered producer; a group of readers."""
    hub.producer.send(letters("first"))
    for key in ("open", "sealed"):
        batch = hub.batches.open(key)
        hub.producer.send(letters(key), batch=batch)
        batch.add(5)
        if key == "sealed":
            batch.seal()
    with hub.batches.open("complete") as complete:
        hub.producer.send([restante.Message(recipient="away", text="complete")], batch=complete)
    bundle = hub.recipient("away").peek()
    assert bundle is not None
    bundle.dequeue()
    with hub.batches.open("gone") as gone:
        hub.producer.send(letters("gone"), batch=gone)
    gone.delete()
    for key in ("done", "under way"):
        consignment = hub.consignment(key, batch=True)
        consignment.stage("w", 0, letters(key))
        if key == "done":
            consignment.commit()
    bundle = hub.recipient(EVERYBODY[0]).peek(max_messages=1)
    assert bundle is not None
    bundle.dequeue()
    read(hub)
    read_so_far = group_positions(hub)
    return Kept(publish_numbered(hub, {}, "numbered"), read_so_far)


def publish_numbered(
    hub: Hub, numbering: Mapping[int, PartitionPublishingConfiguration], text: str
) -> Mapping[int, PartitionPublishingConfiguration]:
    """A message for everybody under the next numbers; gives what the next producer goes on with."""
    with ProducerClient(hub, enable_idempotent_partitions=True, partition_config=dict(numbering)) as producer:
        for letter in letters(text):
            producer.send_messages([letter], partition=hub.partition_of(letter.recipient))
        return producer.state()


def read(hub: Hub) -> None:
    """The group of readers is done with all there is."""
    with hub.group("readers") as group:
        for page in group.pages():
            page.done()
            if hub.group("readers").status().lag == 0:
                break


def group_positions(hub: Hub) -> dict[int, int]:
    return {own.partition: own.position for own in hub.group("readers").status().partitions}


def positions(hub: Hub) -> dict[str, list[tuple[int | None, str]]]:
    """Number and text of all mail."""
    return {
        name: [(message.sequence_number, str(message.text)) for message in hub.recipient(name).history().messages]
        for name in (*EVERYBODY, "away")
    }


def finish(hub: Hub, kept: Kept) -> None:
    """What was begun goes on: bound to the batch, staged by the same parcel, committed, numbered, collected, complete, read."""
    assert group_positions(hub) == kept.group_positions
    assert hub.group("readers").status().lag == len(EVERYBODY)
    opened = hub.batches.get(next(hub.batches.list(key="open")).id)
    assert opened.status().pending == len(EVERYBODY) + 5
    hub.producer.send(letters("more"), batch=opened)
    again = hub.producer.send(letters("first"))
    assert (again.accepted, again.duplicates) == (0, len(EVERYBODY))
    for partition, numbering in publish_numbered(hub, kept.numbering, "numbered again").items():
        before = kept.numbering[partition]
        assert numbering.producer_group_id == before.producer_group_id
        assert (numbering.starting_sequence_number or 0) > (before.starting_sequence_number or 0)
    done = hub.consignment("done")
    assert done.state.value == "committed"
    under_way = hub.consignment("under way")
    under_way.stage("w", 0, letters("under way"))
    receipt = under_way.commit()
    assert receipt.accepted == len(EVERYBODY)
    opened.seal()
    read(hub)
    collect(hub)
    for batch in hub.batches.list():
        one = hub.batches.get(batch.id)
        if batch.state is not BatchState.COMPLETE:
            one.acknowledge(one.pending())
        assert one.completed().state is BatchState.COMPLETE


def collect(hub: Hub) -> None:
    for name in EVERYBODY:
        while (bundle := hub.recipient(name).peek()) is not None:
            bundle.dequeue()
