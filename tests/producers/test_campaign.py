"""Thousands of parcels through a bad network to a hub that is killed: each message is stored once, in its order.

Producers are started anew meanwhile, and take over from each other. What happened is printed: `pytest -s` shows it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

import restante
from restante.calls.producers import OpenLink
from restante.client.producers.configuration import PartitionPublishingConfiguration
from restante.limits import PUBLISHED_SEQUENCE_MAX
from tests.crash.served import Served
from tests.producers.campaign import run_async, run_sync
from tests.producers.campaign_plan import Configuration, Lane, Plan
from tests.producers.campaign_raw import ByHttp, ByWebSocket, RawProducer, Wire
from tests.producers.campaign_scene import RATES, Scene
from tests.producers.chaos import Network

LONG = bool(os.environ.get("RESTANTE_LONG"))
SEEDS_LONG = range(100, 105) if LONG else range(100, 101)
TIMES_LONG = 2 if LONG else 1
"""Each of the long campaigns is so many times as long as the usual one."""
TURNS, RAW_TURNS = 125, 85
KILLS, RAW_KILLS = 3, 2
PARTITIONS = 4
SINGLE, SEVERAL = (1,), (1, 2, 7, 40)
BEFORE_THE_WRAP = 100
TAKEN_OVER_AFTER = 25
"""Parcels of a producer, before another one of a higher owner level takes its groups over."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path / "data", partition_count=PARTITIONS) as process:
        yield process


def add_program(
    scene: Scene, name: str, lanes: Sequence[Lane], *, asynchronous: bool, pipelined: bool, hasty: bool = False
) -> None:
    """A program with a producer client, that comes in by a door of its own. It waits for those that it takes over from."""
    plan = Plan(lanes, scene.tally, seed=f"{scene.seed}/{name}", hasty=hasty)
    url = scene.network.door(name)
    configuration = configuration_of(lanes)

    def ready() -> bool:
        before = [lane.predecessor for lane in lanes if lane.predecessor is not None]
        return all(len(lane.reign.acknowledged) >= TAKEN_OVER_AFTER for lane in before)

    def work() -> None:
        scene.tally.wait_for(ready)
        if asynchronous:
            asyncio.run(run_async(plan, url, configuration, pipelined=pipelined))
        else:
            run_sync(plan, url, configuration, pipelined=pipelined)

    scene.works.append(work)


def configuration_of(lanes: Sequence[Lane]) -> Configuration:
    return {
        lane.reign.partition: PartitionPublishingConfiguration(
            producer_group_id=lane.reign.group,
            owner_level=lane.reign.level,
            starting_sequence_number=lane.reign.last_before,
        )
        for lane in lanes
    }


def add_clients(scene: Scene, turns: int) -> None:
    """In every way that there is: they wait or are asynchronous, ask by HTTP or by frames, with few or many messages."""

    def lanes(
        name: str, partitions: Sequence[int], sizes: Sequence[int], *, hasty: bool, last: int | None
    ) -> list[Lane]:
        reigns = [scene.new_reign(name, each, last_before=last, hasty=hasty) for each in partitions]
        return [Lane(reign, scene.recipients[reign.partition], turns, sizes) for reign in reigns]

    old = PUBLISHED_SEQUENCE_MAX - BEFORE_THE_WRAP
    for name, partitions, sizes, asynchronous, pipelined, hasty, last in (
        ("waits, by HTTP", (0, 1), SEVERAL, False, False, False, old),
        ("waits, by frames", (2, 3), SINGLE, False, True, True, None),
        ("asynchronous, by HTTP", (0, 2), SINGLE, True, False, True, None),
        ("asynchronous, by frames", (1, 3), SEVERAL, True, True, False, old),
    ):
        own = lanes(name, partitions, sizes, hasty=hasty, last=last)
        if last is not None:
            open_groups(scene, own)
        add_program(scene, name, own, asynchronous=asynchronous, pipelined=pipelined, hasty=hasty)


def open_groups(scene: Scene, lanes: Sequence[Lane]) -> None:
    """Only a group that is known may be taken over at any number."""
    with restante.connect(scene.served.url) as hub:
        for lane in lanes:
            hub.link.call(OpenLink(lane.reign.partition, producer_group=lane.reign.group, owner_level=0))


def add_take_overs(scene: Scene, turns: int) -> None:
    for name, partitions, asynchronous, pipelined in (
        ("first by frames, then by HTTP", (0, 3), True, True),
        ("first by HTTP, then by frames", (1, 2), False, False),
    ):
        old = [
            Lane(scene.new_reign(name, partition), scene.recipients[partition], None, SEVERAL)
            for partition in partitions
        ]
        new = [Lane(scene.next_reign(lane.reign), lane.recipients, turns, SEVERAL, predecessor=lane) for lane in old]
        add_program(scene, name + ": old", old, asynchronous=asynchronous, pipelined=pipelined)
        add_program(scene, name + ": new", new, asynchronous=not asynchronous, pipelined=not pipelined)


def publish_by_clients(served: Served, *, seed: int, times: int) -> Scene:
    with Network(served.url, seed=seed, rates=RATES) as network:
        scene = Scene(served, network, seed, PARTITIONS)
        add_clients(scene, times * TURNS)
        add_take_overs(scene, times * TURNS // 2)
        scene.run(kills=times * KILLS, every=250)
    return scene


def publish_raw(served: Served, *, seed: int, times: int) -> Scene:
    """Without ids: one producer for each partition and way, and one more pair of which one takes over."""
    with Network(served.url, seed=seed, rates=RATES) as network:
        scene = Scene(served, network, seed, PARTITIONS)
        for partition in range(PARTITIONS):
            for wire in (ByHttp, ByWebSocket):
                add_raw(
                    scene, f"raw, {wire.__name__}", partition, wire, times * RAW_TURNS, taken_over=partition % 2 == 1
                )
        scene.run(kills=times * RAW_KILLS, every=200)
    return scene


def add_raw(
    scene: Scene, name: str, partition: int, wire: Callable[[str], Wire], turns: int, *, taken_over: bool
) -> None:
    names, reign = scene.recipients[partition], scene.new_reign(name, partition)
    first = RawProducer(reign, names, scene.tally, seed=f"{scene.seed}/{reign.name}")
    url = scene.network.door(reign.name)
    scene.works.append(partial(first.run, url, wire, turns=None if taken_over else turns))
    if not taken_over:
        return
    following = scene.next_reign(reign)
    second = RawProducer(following, names, scene.tally, seed=f"{scene.seed}/{following.name}")

    def work() -> None:
        scene.tally.wait_for(lambda: len(reign.acknowledged) >= TAKEN_OVER_AFTER)
        second.run(url, wire, turns=turns, predecessor=reign)

    scene.works.append(work)


def test_what_clients_publish_through_a_bad_network_to_a_hub_that_is_killed_is_stored_once_and_in_order(
    served: Served,
) -> None:
    scene = publish_by_clients(served, seed=1, times=1)
    assert scene.tally.counts["parcels"] > 1_300, scene.report()
    for name in ("restarts", "others_first"):
        assert scene.tally.counts[name], f"{name} never happened. {scene.report()}"
    assert all(reign.last_before > (reign.last or 0) for reign in scene.reigns if reign.last_before), (
        "they began anew at 0"
    )


def test_numbers_alone_keep_messages_without_ids_from_being_stored_twice(served: Served) -> None:
    scene = publish_raw(served, seed=2, times=1)
    assert scene.tally.counts["parcels"] > 700, scene.report()


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS_LONG)
def test_a_long_campaign_of_clients_is_stored_once_and_in_order(served: Served, seed: int) -> None:
    publish_by_clients(served, seed=seed, times=TIMES_LONG)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS_LONG)
def test_a_long_campaign_without_ids_is_stored_once_and_in_order(served: Served, seed: int) -> None:
    publish_raw(served, seed=seed, times=TIMES_LONG)
