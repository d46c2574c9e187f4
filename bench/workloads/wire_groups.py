"""W20: 10⁶ messages read by four members of a group, and by four plain readers that share the partitions by hand.

The hub is its own reference. Each reader is a process of its own; all of them read from the start until the last message is
in some reader's hands. The members have joined before, and write their checkpoints as they go on.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from itertools import count

import restante
from bench.group_readers import SharingReader, join, leave, read_as_group, read_plainly
from bench.ours_wire import Restante
from bench.outcome import Figure, Outcome, faster
from bench.sampling import Contender, timed
from bench.stream import mixed_parcels
from bench.wire import WireBench
from restante.client.surface.sync import Hub

READERS = 4
AT_LEAST = 0.9
WHAT = "W20 10⁶ read by a group of 4"
GROUP, PLAIN = "restante, a group of 4", "restante, 4 plain readers"


def run(bench: WireBench) -> Outcome:
    scale = bench.scale
    mail = mixed_parcels(bench.mail, recipients=scale.send_recipients, messages=scale.read, parcel=scale.parcel)
    with ExitStack() as stack:
        server = stack.enter_context(closing(Restante(bench.fresh_folder())))
        hub = stack.enter_context(restante.connect(server.url))
        for parcel in mail:
            hub.producer.send(parcel)
        hub.file()
        readers = [stack.enter_context(SharingReader(server.url)) for _ in range(READERS)]
        samples = bench.interleave(WHAT, _contenders(hub, readers, scale.read), scale.repetitions)
    figures = {name: Figure.of_rate(found, scale.read, name) for name, found in samples.items()}
    return Outcome(
        [faster(WHAT, figures[GROUP], figures[PLAIN], at_least=AT_LEAST, of="four plain readers")],
        figures=[(WHAT, figure) for figure in figures.values()],
    )


def _contenders(hub: Hub, readers: list[SharingReader], expected: int) -> list[Contender]:
    names = (f"bench-{number}" for number in count())
    partitions = len(hub.partitions())

    def joined() -> str:
        name = next(names)
        join(hub, readers, name)
        return name

    def as_group(name: str) -> float:
        seconds = timed(lambda _: _check(read_as_group(hub, readers, name, expected), expected))(None)
        leave(readers)
        return seconds

    def plainly(_: None) -> None:
        _check(read_plainly(readers, partitions), expected)

    return [Contender(GROUP, joined, as_group), Contender(PLAIN, lambda: None, timed(plainly))]


def _check(found: int, expected: int) -> None:
    assert found == expected, f"{found} of {expected} messages were read"
