"""`restante bridge`: topics of Kafka into mailboxes, the feed into a topic, and how far they are."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.backplanes.kafka_library import DEFAULT_BROKERS, option_pairs
from restante.bridges.in_rules import DataForm, InRule, Tombstones
from restante.bridges.out_choices import Misfits, OutChanges, OutForm
from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.hub_options import Door, at_hub
from restante.cli.shared.options import AsJson
from restante.cli.shared.output import listing, print_answer
from restante.cli.shared.plain import say

if TYPE_CHECKING:
    from restante.bridges.bridge_counts import BridgeCounts
    from restante.bridges.bridge_in import BridgeIn
    from restante.bridges.bridge_lags import TopicLag
    from restante.bridges.bridge_out import BridgeOut

app = command_group("bridge")

Topic = Annotated[str, typer.Option("--topic", metavar="TOPIC", help="The topic.", show_default=False)]
BrokersOption = Annotated[
    str,
    typer.Option(
        "--brokers", envvar="RESTANTE_BROKERS", metavar="HOST:PORT,…", help="The addresses of Kafka's brokers."
    ),
]
KafkaOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka",
        metavar="NAME=VALUE",
        help="A setting of the Kafka client, like security.protocol=SASL_SSL; the value env:NAME is taken from the environment.",
    ),
]
MetricsPort = Annotated[
    int | None, typer.Option("--metrics-port", help="Serve metrics to Prometheus on this port of 127.0.0.1.")
]
UntilEnd = Annotated[bool, typer.Option("--until-end", help="Stop at the end instead of waiting for more.")]
SourcePrefix = Annotated[
    str,
    typer.Option(
        "--prefix", help="A prefix for the names of sources: needed if two Kafka clusters have topics of the same name."
    ),
]

RecordRecipient = Annotated[
    str | None,
    typer.Option(
        "--recipient",
        metavar="RULE",
        help="Where a record names its recipient: key, header:NAME or json:PATH. Default: the recipient of a CloudEvent, else the key.",
    ),
]
RecordOrigin = Annotated[
    str | None,
    typer.Option("--origin", help="The origin of its messages. Default: the source of a CloudEvent, else the topic."),
]
RecordKind = Annotated[
    str | None,
    typer.Option("--kind", help="The kind of its messages. Default: the type of a CloudEvent, else the topic."),
]


@app.callback()
def bridge() -> None:
    """Connect a hub with Kafka (or Event Hubs): topics into mailboxes, the change feed into topics, exactly once.

    \b
    restante bridge in --topic orders --recipient json:customer.id
    restante bridge out --topic changes --origin billing
    restante bridge show --topic orders
    """


@at_hub
def in_(
    *,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="The topic.")] = None,
    recipient: RecordRecipient = None,
    origin: RecordOrigin = None,
    kind: RecordKind = None,
    values: Annotated[DataForm, typer.Option(help="The format of the values of records.")] = DataForm.JSON,
    tombstones: Annotated[
        Tombstones, typer.Option(help="What to do with records that have no value.")
    ] = Tombstones.SKIP,
    poison: Annotated[str, typer.Option(metavar="MAILBOX", help="The mailbox for bad records.")] = "bridge-poison",
    dead_letter: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="A topic for bad records, instead of a mailbox.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="TOML", help="A TOML file that names several topics.")
    ] = None,
    group: Annotated[str, typer.Option(help="The consumer group that its processes share.")] = "restante",
    prefix: SourcePrefix = "",
    batch: Annotated[int, typer.Option(min=1, max=100_000, help="The most records to take at a time.")] = 100_000,
    brokers: BrokersOption = DEFAULT_BROKERS,
    kafka: KafkaOptions = None,
    metrics_port: MetricsPort = None,
    until_end: UntilEnd = False,
    door: Door,
) -> None:
    """Carry the records of topics into mailboxes, each exactly once, in the order of their topic partition.

    Start as many as you like: processes of one group share the topic partitions. A restart repeats nothing.

    \b
    restante bridge in --topic orders
    restante bridge in --topic orders --recipient json:customer.id
    restante bridge in --topic events --dead-letter events.dead
    restante bridge in --file bridges.toml
    """
    from restante.bridges.bridge_file import BridgeFile, read_bridge_file
    from restante.bridges.bridge_in import BridgeIn, InOptions

    if (topic is None) == (file is None):
        raise typer.BadParameter("Name a topic, or a file with several.", param_hint="--topic")
    rule = InRule(
        topic=topic or "",
        recipient=recipient,
        origin=origin,
        kind=kind,
        values=values,
        tombstones=tombstones,
        poison=poison,
        dead_letter=dead_letter,
    )
    if file is not None and rule != InRule(topic=""):
        raise typer.BadParameter(
            "With --file, the options of each topic stand in the file: leave them out here.", param_hint="--file"
        )
    given = read_bridge_file(file) if file is not None else BridgeFile(rules=(rule,))
    options = InOptions(
        rules=given.rules,
        brokers=given.kafka.brokers or brokers,
        group=group,
        prefix=prefix,
        kafka={**given.kafka.settings, **option_pairs(tuple(kafka or ()))},
        batch=batch,
        until_end=until_end,
    )
    with door.open() as hub:
        _run(BridgeIn(hub, options), metrics_port, "in")


@at_hub
def out(
    *,
    topic: Topic,
    origin: Annotated[list[str] | None, typer.Option(help="Only messages of these origins.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only messages of these kinds.")] = None,
    form: Annotated[OutForm, typer.Option("--format", help="How records are written.")] = OutForm.JSON,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="The Avro schema (.avsc).")] = None,
    misfits: Annotated[
        Misfits, typer.Option(help="What to do with changes that do not fit the schema.")
    ] = Misfits.STOP,
    changes: Annotated[OutChanges, typer.Option(help="The changes to write.")] = OutChanges.PUBLISHED,
    compacted: Annotated[
        bool,
        typer.Option(
            "--compacted",
            help="For a compacted topic: a message that waits is a record; when it no longer waits, one without a value follows.",
        ),
    ] = False,
    group: Annotated[str, typer.Option(help="The group of the hub that its processes are members of.")] = "bridge",
    member: Annotated[str | None, typer.Option(help="A name of this process that is the same after a restart.")] = None,
    brokers: BrokersOption = DEFAULT_BROKERS,
    kafka: KafkaOptions = None,
    metrics_port: MetricsPort = None,
    until_end: UntilEnd = False,
    door: Door,
) -> None:
    """Carry the change feed into a topic, keyed by recipient, exactly once: in transactions, with the position inside.

    Readers of the topic read what is committed (isolation.level=read_committed). Processes of one group share the hub's
    partitions.

    \b
    restante bridge out --topic changes
    restante bridge out --topic invoices --kind invoice
    restante bridge out --topic orders --format avro --schema order.avsc
    restante bridge out --topic mailboxes --compacted
    """
    from restante.bridges.bridge_out import BridgeOut, OutOptions

    options = OutOptions(
        topic=topic,
        brokers=brokers,
        group=group,
        origins=tuple(origin or ()),
        kinds=tuple(kind or ()),
        form=form,
        schema=schema,
        changes=changes,
        compacted=compacted,
        skip_misfits=misfits is Misfits.SKIP,
        kafka=option_pairs(tuple(kafka or ())),
        member=member,
        until_end=until_end,
    )
    with door.open() as hub:
        _run(BridgeOut(hub, options), metrics_port, "out")


@at_hub
def show(
    *,
    topic: Topic,
    group: Annotated[str, typer.Option(help="The consumer group of the bridge.")] = "restante",
    prefix: SourcePrefix = "",
    brokers: BrokersOption = DEFAULT_BROKERS,
    kafka: KafkaOptions = None,
    door: Door,
    as_json: AsJson = False,
) -> None:
    """Show how far a bridge from Kafka is: for each partition of the topic, what is stored, where the topic ends, and the lag.

    For a bridge out, use `restante groups show`.

    \b
    restante bridge show --topic orders
    restante bridge show --topic orders --json | jq 'map(.lag) | add'
    """
    from restante.bridges.bridge_lags import topic_lags

    pairs = option_pairs(tuple(kafka or ()))
    with door.open() as hub:
        found = topic_lags(hub, topic, brokers=brokers, group=group, prefix=prefix, kafka=pairs)
    print_answer(found, partial(_print_lags, found), as_json=as_json)


def _print_lags(found: list[TopicLag]) -> None:
    headings = ("source", "stored up to", "begins again at", "end", "lag", "messages")
    rows = [
        (
            one.source,
            "-" if one.position is None else f"{one.position:,}",
            "-" if one.committed is None else f"{one.committed:,}",
            f"{one.end:,}",
            f"{one.lag:,}",
            f"{one.messages:,}",
        )
        for one in found
    ]
    listing(headings, rows, right=headings[1:])


def _run(bridge: BridgeIn | BridgeOut, metrics_port: int | None, direction: str) -> None:
    """Until it ends, or is interrupted: then what is under way is finished."""
    from restante.bridges.bridge_counts import metrics_served
    from restante.bridges.bridge_process import spare_process

    spare_process()
    served = nullcontext() if metrics_port is None else metrics_served(bridge.counts, metrics_port, direction)
    with served, _stopping(bridge.stop):
        bridge.run(_Progress(bridge.counts).tick)
    say(f"{bridge.counts.line()}.")


@contextmanager
def _stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop it in good order."""
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {each: signal.signal(each, lambda *_: stop()) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class _Progress:
    """A line on the terminal, once a second; nothing where nobody looks."""

    def __init__(self, counts: BridgeCounts) -> None:
        self._counts = counts
        self._next = time.monotonic() + 1

    def tick(self) -> None:
        if sys.stderr.isatty() and time.monotonic() >= self._next:
            self._next = time.monotonic() + 1
            sys.stderr.write(f"\r\x1b[K{self._counts.line()}")
            sys.stderr.flush()


for _name, _command in (("in", in_), ("out", out), ("show", show)):
    command_of(app, _name)(_command)
