"""The parts of a backplane that an open hub has."""

from __future__ import annotations

from dataclasses import dataclass, field

from restante.hub.backplane.doorway import Doorway
from restante.hub.backplane.publish_checks import NOT_LOOKED_AT
from restante.ports.backplane import Backplane


@dataclass(slots=True)
class LogTotals:
    """Counts of the work of an owner of partitions since the hub was opened."""

    records: int = 0
    """Read from the log."""
    messages: int = 0
    """Stored."""
    duplicates: int = 0
    skipped: int = 0
    """Records that were stored before."""
    refused: int = 0
    """Records that became poison."""
    gaps: int = 0
    """Records that the log had removed before they were stored."""


@dataclass(slots=True)
class BackplaneMemory:
    """None: the hub has no backplane."""

    backplane: Backplane | None = None
    doorway: Doorway | None = None
    totals: LogTotals = field(default_factory=LogTotals)
    failure: str | None = None
    """Why the owner cannot read or store the log at present."""
    unfit: str | None = NOT_LOOKED_AT
    """Why nothing may be handed in: the log does not fit the hub, as far as that is known."""
    stored: dict[int, int] = field(default_factory=dict)
    """The last position of each partition that is stored."""
