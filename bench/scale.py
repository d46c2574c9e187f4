"""How much is measured: the normal run, a full one, and a quick one that only tries whether everything works."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Scale:
    """The sizes of a run. Counts are messages unless the name says otherwise."""

    name: str = "normal"
    repetitions: int = 7
    send: int = 51_200
    """Messages of one publish, and of the bundle that is peeked and dequeued."""
    send_recipients: int = 5_000
    small_repetitions: int = 40
    """Repetitions of what takes less than a millisecond."""
    waiting: int = 1_024
    """Single publishes that wait at the same time."""
    rounds: int = 25
    """Single publishes of each of those that wait, in one sample."""
    parcel: int = 10_000
    base: int = 1_000_000
    sustained: int = 3_000_000
    grown: int = 10_000_000
    step: int = 1_000_000
    """How often the rate is recorded while a store grows."""
    recipients: int = 100_000
    """Recipients of the sustained and the grown store."""
    probes: int = 5
    """Fresh processes that open the grown store."""
    probe_peeks: int = 1_000
    room: tuple[int, ...] = (1_000_000, 10_000_000)
    """Stores that are compared with the first of them."""
    room_parcel: int = 500_000
    room_data_bytes: int = 32
    room_probes: int = 3
    emptied_recipients: int = 100_000
    collectors: int = 64
    """Threads that empty mailboxes at the same time."""

    spread: int = 50_000
    """Messages of one publish to many recipients over the wire."""
    one_by_one: int = 1_000
    """Publishes of one publisher, in one sample."""
    connection_rounds: int = 100
    """Publishes of each connection, in one sample."""
    pipelined: int = 20_000
    turns: int = 31
    """Repetitions of two that are compared round by round; many short ones, as the machine drifts."""
    turn_rounds: int = 30
    """Publishes of each connection in one of those."""
    bulk: int = 6_500
    """Messages of a bulk publish beside small ones: about 1.5 MB."""

    batch_items: int = 100_000
    """Items of a batch that is acknowledged over the wire."""
    chord_tasks: int = 1_000
    chord_repetitions: int = 3
    ranged_items: int = 10**9
    """Items of a batch that is acknowledged in ranges, in process."""
    range_items: int = 10**6
    random_items: int = 10**7
    """Items of a batch that is acknowledged in random order, in process."""

    consigned: int = 1_000_000
    """Messages that four writers publish, or stage and commit."""
    commits: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    """Sizes of consignments whose commit is timed, the largest last."""
    commit_repetitions: int = 5

    read: int = 1_000_000
    """Messages that are read along from the start."""
    read_before: int = 300_000
    """Messages that a reader catches up with while others publish."""
    beside_parcels: int = 10
    """Parcels of one sample beside a reader."""
    beside_turns: int = 15

    live_connections: int = 1_000
    """Clients that wait for what is pushed."""
    live_each: int = 100
    """Messages of each of them that are published as fast as it goes."""
    live_pace: int = 1_000
    """Messages a second that are published at an even pace, to all of them."""
    live_seconds: float = 5.0
    live_burst: int = 50
    """Messages that are pushed to all clients of one recipient, as fast as it goes."""
    live_broadcasts: int = 50
    """The same at an even pace."""
    live_broadcast_pace: int = 10
    live_stuck: int = 100
    """Clients that read nothing."""
    live_stuck_messages: int = 75
    """Large messages for each of those, so that nothing more goes into their buffers."""
    live_idle: int = 10_000
    """Clients that are connected while next to nothing is published."""
    live_pushes: int = 500
    """Messages to some of those."""
    live_push_pace: int = 100
    live_repetitions: int = 3

    actions: int = 20_000
    """Actions that wait for a worker."""
    action_repetitions: int = 3
    actions_paced: int = 5_000
    """Actions that are sent at a steady rate."""

    spark_messages: int = 1_000_000
    """Messages that Spark writes into the hub, or reads from it."""
    spark_singles: int = 5_000
    """Messages that Spark publishes one by one."""
    spark_repetitions: int = 3
    store_messages: int = 4_000_000
    """Messages that the analytical store catches up with."""
    store_repetitions: int = 1
    lag_seconds: int = 180
    store_rows: int = 10_000_000
    """Rows of the table that a partitioned store is made of."""

    def __post_init__(self) -> None:
        assert self.repetitions >= 5, "medians of at least five"
        assert self.rounds >= 20, "a steady rate"
        assert self.grown % self.step == 0
        assert self.step % self.parcel == 0
        assert all(count % self.parcel == 0 for count in (self.consigned, *self.commits, self.read, self.read_before))
        assert self.commit_repetitions >= 5, "medians of at least five"


NORMAL = Scale()
FULL = replace(
    NORMAL,
    name="full",
    emptied_recipients=1_000_000,
    commits=(*NORMAL.commits, 3_000_000),
    room=(*NORMAL.room, 100_000_000),
)
QUICK = Scale(
    name="quick",
    repetitions=5,
    send=5_120,
    send_recipients=500,
    small_repetitions=10,
    waiting=128,
    rounds=20,
    parcel=1_000,
    base=10_000,
    sustained=30_000,
    grown=100_000,
    step=10_000,
    recipients=1_000,
    probes=2,
    probe_peeks=100,
    room=(10_000, 50_000),
    room_parcel=10_000,
    room_probes=1,
    emptied_recipients=1_000,
    collectors=16,
    spread=5_000,
    one_by_one=100,
    connection_rounds=10,
    pipelined=1_000,
    turns=5,
    turn_rounds=5,
    batch_items=10_000,
    chord_tasks=100,
    ranged_items=10**7,
    range_items=10**4,
    random_items=10**5,
    consigned=20_000,
    commits=(1_000, 5_000, 20_000),
    read=20_000,
    live_connections=50,
    live_each=20,
    live_pace=500,
    live_seconds=0.5,
    live_burst=20,
    live_broadcasts=10,
    live_broadcast_pace=20,
    live_stuck=5,
    live_idle=200,
    live_pushes=50,
    live_repetitions=2,
    actions=1_000,
    action_repetitions=1,
    actions_paced=250,
    spark_messages=20_000,
    spark_singles=200,
    store_messages=20_000,
    store_repetitions=1,
    lag_seconds=5,
    store_rows=100_000,
    read_before=10_000,
    beside_parcels=3,
    beside_turns=5,
)
