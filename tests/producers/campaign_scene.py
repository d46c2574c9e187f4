"""A campaign from its beginning to its end: a hub, a bad network, producers, and what must be true of it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import msgspec

import restante
from restante.model.mailboxes.answers import ProducerState
from tests.crash.served import Served
from tests.producers.campaign import campaign
from tests.producers.campaign_ledger import Place, Reign, Tally, check_reigns, stored_in
from tests.producers.campaign_raw import ByHttp
from tests.producers.chaos import Network, Rates

RATES = Rates(cut=0.04, delay=0.08, hold=0.02, duplicate=0.08)
RECIPIENTS_EACH = 2
LOOKED_AT_MAX = 1_000

HAPPENED = (
    *("cuts", "delays", "duplicates", "reorderings", "kills", "unclear", "disconnected"),
    *("replays", "replays_answered", "fenced_attempts", "late_replayed", "late_refused"),
)
"""What must have happened in a campaign, or it has shown nothing."""


@dataclass
class Scene:
    """One campaign. Its producers are added before it runs."""

    served: Served
    network: Network
    seed: int
    partitions: int
    tally: Tally = field(default_factory=Tally)
    reigns: list[Reign] = field(default_factory=list)
    works: list[Callable[[], None]] = field(default_factory=list)
    recipients: dict[int, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._groups = count(1)
        self.recipients = {partition: [] for partition in range(self.partitions)}
        with restante.connect(self.served.url) as hub:
            for number in range(LOOKED_AT_MAX):
                names = self.recipients[hub.partition_of(f"recipient {number}")]
                if len(names) < RECIPIENTS_EACH:
                    names.append(f"recipient {number}")
                if all(len(names) == RECIPIENTS_EACH for names in self.recipients.values()):
                    return
        raise AssertionError("no recipients for some partitions")

    def new_reign(self, name: str, partition: int, *, last_before: int | None = None, hasty: bool = False) -> Reign:
        """Of a group of its own; level 1 if it starts at a number, for only a higher level may."""
        level = 0 if last_before is None else 1
        name = f"{name}, partition {partition}, level {level}"
        reign = Reign(partition, next(self._groups), level, name, last_before, creation_order=not hasty)
        self.reigns.append(reign)
        return reign

    def next_reign(self, before: Reign) -> Reign:
        """The one that takes over."""
        level = before.level + 1
        reign = Reign(before.partition, before.group, level, before.name.rpartition(" ")[0] + f" {level}")
        before.successor = reign
        self.reigns.append(reign)
        return reign

    def run(self, *, kills: int, every: int) -> None:
        try:
            campaign(self.served, self.works, self.tally, kills=kills, every=every)
            self.network.settle()
            assert self.served.end() == 0
            self.served.check_folder()
            self.served.check_log()
            self.served.start()
            self._check()
        except BaseException as error:
            error.add_note(self.report())
            for reign in self.reigns:
                error.add_note("\n  ".join([f"group {reign.group}, {reign.name}", *reign.trail]))
            raise
        print(self.report())

    def report(self) -> str:
        return f"seed {self.seed}: {self.tally}; the network: {dict(sorted(self.network.counts.items()))}"

    def _check(self) -> None:
        with restante.connect(self.served.url) as hub:
            stored: dict[int, list[Place]] = {
                partition: stored_in(hub, names) for partition, names in self.recipients.items()
            }
        states = self._states()
        self.tally.count(
            replays=sum(state.replays for state in states.values()),
            fenced_attempts=sum(state.fenced_attempts for state in states.values()),
        )
        check_reigns(self.reigns, stored, states)
        happened = self.tally.counts + self.network.counts
        missing = [name for name in HAPPENED if not happened[name]]
        assert not missing, f"never happened: {missing}"

    def _states(self) -> dict[int, ProducerState]:
        wire, found = ByHttp(self.served.url), {}
        for partition in range(self.partitions):
            answer = wire.ask("GET", f"/v1/partitions/{partition}/producers?limit=1000")
            for state in msgspec.convert(answer["producers"], list[ProducerState]):
                assert state.producer_group not in found
                found[state.producer_group] = state
        wire.close()
        return found
