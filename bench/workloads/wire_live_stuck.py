"""W14: live delivery to 1,000 connections of which 100 read nothing, beside 1,000 that do: the others' latency, and memory.

The hub is its own reference. Two servers, one with stuck clients and one without, take turns; both get the same messages. At
first the clients that are stuck, or would be, get large messages, more than all buffers between take, so that from then on
whatever is published for them is dropped. The latency is that of the others, of the same messages a second as before, and the
ratio the median over the rounds of the ratio in each. Memory is that of the server's process, beyond what it had at its start.
The memory of a stuck client is the median over the rounds of the difference in each.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from bench import ours_live
from bench.live import Audience, Moments, More, Sending, latencies, numbered, one_mailbox_each
from bench.live_lines import PERCENTILES, percentile
from bench.live_stage import Stage
from bench.mail import Mail
from bench.ours_wire import Restante, RestanteClient
from bench.outcome import Figure, Goal, Line, Outcome, Unit, by_turns
from bench.sampling import Contender
from bench.scale import Scale
from bench.wire import OURS, WireBench
from restante.limits import LIVE_SOCKET_BYTES, LIVE_WRITE_BYTES
from restante.settings import LiveSettings

WHAT = "W14 1,000 messages a second"
DROPPED = "restante_live_dropped_total"
STUCK, WELL = "100 of 1,000 stuck", "none stuck"
AT_MOST = {"p50": 1.1, "p99": 1.25}
LARGE_BYTES = 16 * 1024
LARGE_TOGETHER = 100
"""Few, so that what a publish takes for a while does not hide what stays."""
BOUND_BYTES = LiveSettings().queue_bytes + LARGE_BYTES + LIVE_WRITE_BYTES + LIVE_SOCKET_BYTES
"""The bytes that one connection may hold: its queue, one message that goes beyond it, and what is being written."""


@dataclass(slots=True)
class Side:
    """A server, and its connections, of which some are stuck or none."""

    name: str
    server: Restante
    client: RestanteClient
    stage: Stage
    stuck: int
    before: int
    taken: list[Moments] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    """Messages for stuck clients that were dropped while the others' latency was taken."""

    def prepare(self, mail: Mail, scale: Scale) -> Sending:
        """Connects, fills the buffers of the stuck ones, and has what they got filed."""
        count = int(scale.live_pace * scale.live_seconds)
        show = one_mailbox_each(mail, connections=scale.live_connections, messages=count, stuck=self.stuck)
        large = [scale.live_stuck_messages] * scale.live_stuck + [0] * (scale.live_connections - scale.live_stuck)
        expected = [0 if place < self.stuck else number for place, number in enumerate(large)]
        self.stage.gather(Audience(show.audience.names, expected, show.audience.stuck))
        names = [*show.audience.names[: scale.live_stuck]] * scale.live_stuck_messages
        self.stage.perform(Sending(numbered(mail.one_each(pa.array(names, pa.string())), size=LARGE_BYTES)))
        self.client.settle()
        self.stage.gather(More(show.audience.expected))
        return Sending(show.table, scale.live_pace)

    def measure(self, sending: Sending, scale: Scale) -> float:
        dropped = self.server.metric(DROPPED)
        begun = time.perf_counter()
        published, received = self.stage.perform(sending)
        seconds = time.perf_counter() - begun
        self.resident.append(self.server.resident_bytes() - self.before)
        self.dropped.append(self.server.metric(DROPPED) - dropped)
        self.stage.leave()
        others = received.connections >= scale.live_stuck
        self.taken.append(latencies(published, received)[others])
        return seconds


def run(bench: WireBench) -> Outcome:
    if OURS not in bench.servers:
        return Outcome()
    with ExitStack() as stack:
        sides = [_side(bench, stack, name, stuck) for name, stuck in ((STUCK, bench.scale.live_stuck), (WELL, 0))]
        contenders = [
            Contender(
                side.name,
                partial(side.prepare, bench.mail, bench.scale),
                partial(side.measure, scale=bench.scale),
            )
            for side in sides
        ]
        bench.interleave(WHAT, contenders, bench.scale.live_repetitions)
    return _outcome(sides, bench.scale)


def _side(bench: WireBench, stack: ExitStack, name: str, stuck: int) -> Side:
    server = stack.enter_context(closing(Restante(bench.fresh_folder())))
    client = stack.enter_context(closing(RestanteClient(server.url)))
    stage = stack.enter_context(Stage(ours_live.bare(server, parcel=LARGE_TOGETHER)))
    return Side(name, server, client, stage, stuck, server.resident_bytes())


def _outcome(sides: Sequence[Side], scale: Scale) -> Outcome:
    stuck, well = sides
    outcome = Outcome()
    for name, fraction in PERCENTILES.items():
        figures = [percentile(side.taken[1:], fraction, side.name) for side in sides]
        what = f"{WHAT}, the others' {name}"
        outcome.lines.append(by_turns(what, *figures, at_most=AT_MOST[name]))
        outcome.figures += [(what, figure) for figure in figures]
    memory = [Figure(float(np.median(side.resident)), Unit.BYTES, side.name, tuple(side.resident)) for side in sides]
    what = f"{WHAT}, memory of the server"
    outcome.lines.append(Line(what, memory[0], memory[1], memory[0].value / memory[1].value))
    outcome.figures += [(what, figure) for figure in memory]
    beyond = float(np.median(np.subtract(stuck.resident, well.resident))) / scale.live_stuck
    bound = Goal(f"≤ {BOUND_BYTES / 1024:,.0f} KiB, as stated", at_most=BOUND_BYTES, of_value=True)
    outcome.lines.append(Line(f"{WHAT}, memory beyond it, a stuck client", Figure(beyond, Unit.BYTES), goal=bound))
    latencies_taken = len(np.concatenate(stuck.taken[1:]))
    outcome.notes += [f"W14: latencies of {latencies_taken:,} and as many messages"] + [
        f"W14, {side.name}: in each sample {min(side.dropped):,} messages or more were dropped" for side in sides
    ]
    return outcome
