"""The context of a workload: sizes, messages, folders, the screen, and a contest of the hub with all its peers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.display import Display
from bench.mail import Mail
from bench.ours import NAME, Ours
from bench.outcome import Figure
from bench.peer import Opener, Operation, Peer, peers_for
from bench.sampling import Contender, Samples, interleave, rounds
from bench.scale import Scale


@dataclass(frozen=True, slots=True)
class Contest:
    """The samples of one thing: ours, and the fastest variant of each peer."""

    ours: Samples
    peers: Mapping[str, tuple[str, Samples]]

    def ours_seconds(self) -> Figure:
        return Figure.of_seconds(self.ours)

    def peer_seconds(self, peer: str) -> Figure:
        variant, samples = self.peers[peer]
        return Figure.of_seconds(samples, variant)


@dataclass(slots=True)
class Bench:
    scale: Scale
    root: Path
    """Holds the data of all that is measured, each in a folder of its own; removed at the end."""
    kept: Path
    """Holds the large store; not removed if the caller named it."""
    display: Display
    mail: Mail = field(default_factory=Mail)
    _folders: int = 0

    @contextmanager
    def opened(self, opener: Opener) -> Iterator[Peer]:
        """A peer on an empty folder, which is removed afterwards."""
        folder = self.fresh_folder()
        peer = opener(folder)
        try:
            yield peer
        finally:
            peer.close()
            shutil.rmtree(folder)

    @contextmanager
    def ours(self) -> Iterator[Ours]:
        with self.opened(Ours) as peer:
            assert isinstance(peer, Ours)
            yield peer

    def fresh_folder(self) -> Path:
        self._folders += 1
        folder = self.root / f"{self._folders:03d}"
        folder.mkdir()
        return folder

    def interleave(self, title: str, contenders: Sequence[Contender], repetitions: int) -> dict[str, Samples]:
        """The samples of each, with a bar on the screen."""
        with self.display.bar(title, rounds(contenders, repetitions)) as advance:
            return interleave(contenders, repetitions=repetitions, advance=advance)

    def contest(
        self, title: str, operation: Operation, contender: Callable[[str, Peer], Contender], *, repetitions: int = 0
    ) -> Contest:
        """The hub against every peer that can do the operation, by turns."""
        peers = peers_for(operation)
        with ExitStack() as stack:
            contenders = [contender(NAME, stack.enter_context(self.ours()))]
            for openers in peers.values():
                contenders += [
                    contender(name, stack.enter_context(self.opened(opener))) for name, opener in openers.items()
                ]
            samples = self.interleave(title, contenders, repetitions or self.scale.repetitions)
        return Contest(samples[NAME], {peer: _fastest(samples, openers) for peer, openers in peers.items()})


def _fastest(samples: Mapping[str, Samples], names: Mapping[str, Opener]) -> tuple[str, Samples]:
    name = min(names, key=lambda name: samples[name].median)
    return name, samples[name]
