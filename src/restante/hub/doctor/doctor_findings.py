"""The doctor's notes: findings, and the case in which each was made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType

import msgspec

from restante.errors import RestanteError
from restante.hub.engine.partitions import Deed, PartitionRow
from restante.model.consignments.consignment import StagedRun
from restante.ports.store import StoreReader

TakeStep = Callable[[], None]
"""Called after each blob that was examined."""
FINDINGS_MAX = 1_000
"""The number of findings that are listed; the others are only counted. A folder that is wrong everywhere is not listed line by line."""


class Severity(Enum):
    PROBLEM = "problem"
    """The severity of a finding that something stored is not what was written, or contradicts something else."""
    NOTE = "note"
    """Harmless, and worth knowing."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    severity: Severity
    partition: int | None
    """The partition of the finding; None: the store as a whole."""
    what: str
    detail: str


class Checked(msgspec.Struct, kw_only=True):
    """The counts of everything that was looked at."""

    partitions: int = 0
    runs: int = 0
    blobs: int = 0
    blob_bytes: int = 0
    messages: int = 0
    heads: int = 0
    bundles: int = 0
    changes: int = 0
    batches: int = 0
    consignments: int = 0


@dataclass(slots=True)
class DoctorFindings:
    """All findings of one examination."""

    listed: list[Finding] = field(default_factory=list)
    problems: int = 0
    notes: int = 0
    checked: Checked = field(default_factory=Checked)

    def add(self, severity: Severity, partition: int | None, what: str, detail: str) -> None:
        if severity is Severity.PROBLEM:
            self.problems += 1
        else:
            self.notes += 1
        if len(self.listed) < FINDINGS_MAX:
            self.listed.append(Finding(severity=severity, partition=partition, what=what, detail=detail))


@dataclass(slots=True)
class Case:
    """One partition being examined."""

    store: StoreReader
    deed: Deed
    partition: int
    findings: DoctorFindings
    counters: PartitionRow = field(default_factory=PartitionRow)
    staged: frozenset[StagedRun] = frozenset()
    """The runs that parcels of consignments, their parts and rounds name, in all partitions that are examined."""
    owned: range | None = None
    """The partitions of the one shard that is examined; None: all are."""

    @property
    def checked(self) -> Checked:
        return self.findings.checked

    def knows(self, partition: int) -> bool:
        """Whether what a partition has can be looked up."""
        return self.owned is None or partition in self.owned

    def problem(self, what: str, detail: str) -> None:
        self.findings.add(Severity.PROBLEM, self.partition, what, detail)

    def note(self, what: str, detail: str) -> None:
        self.findings.add(Severity.NOTE, self.partition, what, detail)

    def guard(self, what: str) -> Guard:
        return Guard(self.findings, self.partition, what)


@dataclass(slots=True)
class Guard:
    """Whatever fails inside becomes a finding: a doctor survives any damage, foreseen or not."""

    findings: DoctorFindings
    partition: int | None
    what: str
    failed: bool = False

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.failed = True
        self.findings.add(Severity.PROBLEM, self.partition, self.what, described(error))
        return True


def described(error: Exception) -> str:
    if isinstance(error, RestanteError):
        return error.message
    return f"It makes no sense ({type(error).__name__}: {error})."


def named(cabinet: tuple[str, str, str]) -> str:
    """A cabinet, for people."""
    return "/".join(cabinet)
