"""What an owner remembers of its rows is what the server has, whatever is read beside whatever is committed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from restante.model.storage.changes import Changes, EntryKey, Space
from restante.model.storage.keys import after_prefix
from restante.stores.postgresql import recent_rows
from restante.stores.postgresql.recent_rows import ReadMark, RecentRow, RecentRows, prefix_of
from tests.profiles import by_profile

PREFIXES = [b"recipe-1", b"recipe-2"]
KEYS = [prefix + end for prefix in PREFIXES for end in (b"", b"a", b"b")]
ENTRIES = [
    EntryKey(partition, space, key) for partition in (0, 1) for space in (Space.HEAD, Space.BUNDLE) for key in KEYS
]
VALUES = st.none() | st.sampled_from([b"one", b"two", bytes(recent_rows.VALUE_BYTES_MAX + 1)])
CHANGES = st.dictionaries(st.sampled_from(ENTRIES), VALUES, min_size=1, max_size=4)


class RecentMachine(RuleBasedStateMachine):
    """`server` is what the server has; reads begin at one moment, look at another, and end at a third."""

    def __init__(self) -> None:
        super().__init__()
        self.recent = RecentRows()
        self.server: dict[EntryKey, bytes] = {}
        self.reads: list[tuple[ReadMark, EntryKey, list[Any]]] = []
        self.scans: list[tuple[ReadMark, recent_rows.Prefix, list[Any]]] = []
        self.flying: Changes | None = None
        self.visible = False

    @rule(entry=st.sampled_from(ENTRIES))
    def begin_read(self, entry: EntryKey) -> None:
        mark = self.recent.row(entry)
        if isinstance(mark, ReadMark):
            self.reads.append((mark, entry, []))

    @rule(entry=st.sampled_from(ENTRIES))
    def begin_scan(self, entry: EntryKey) -> None:
        prefix = (entry.partition, entry.space, entry.key[:8])
        mark = self.recent.prefix(prefix)
        if isinstance(mark, ReadMark):
            self.scans.append((mark, prefix, []))

    @rule(number=st.integers(0, 100))
    def look(self, number: int) -> None:
        """The server answers one of those who read."""
        for of in (self.reads, self.scans):
            unanswered = [read for read in of if not read[2]]
            if unanswered:
                _, what, answer = unanswered[number % len(unanswered)]
                answer.append(self.server.get(what) if isinstance(what, EntryKey) else self.under(what))

    @rule(number=st.integers(0, 100))
    def end_read(self, number: int) -> None:
        answered = [read for read in self.reads if read[2]]
        if answered:
            mark, entry, (value,) = read = answered[number % len(answered)]
            self.recent.learn(mark, [(entry, value)])
            self.reads.remove(read)

    @rule(number=st.integers(0, 100))
    def end_scan(self, number: int) -> None:
        answered = [scan for scan in self.scans if scan[2]]
        if answered:
            mark, prefix, (rows,) = scan = answered[number % len(answered)]
            self.recent.learn_prefix(mark, prefix, rows)
            self.scans.remove(scan)

    @precondition(lambda self: self.flying is None)
    @rule(entries=CHANGES)
    def begin_commit(self, entries: dict[EntryKey, bytes | None]) -> None:
        self.flying, self.visible = Changes(entries=dict(entries)), False
        self.recent.begin(self.flying)

    @precondition(lambda self: self.flying is not None and not self.visible)
    @rule()
    def make_visible(self) -> None:
        assert self.flying is not None
        self.visible = True
        for entry, value in self.flying.entries.items():
            if value is None:
                self.server.pop(entry, None)
            else:
                self.server[entry] = value

    @precondition(lambda self: self.flying is not None and self.visible)
    @rule()
    def end_commit(self) -> None:
        assert self.flying is not None
        self.recent.done(self.flying)
        self.flying = None

    @precondition(lambda self: self.flying is not None)
    @rule()
    def fail_commit(self) -> None:
        """It was stored or not, and the outcome is known."""
        self.recent.forget(learning=False)
        self.recent.forget()
        self.flying = None

    @invariant()
    def what_is_known_is_what_the_server_has(self) -> None:
        for entry in ENTRIES:
            known = self.recent.row(entry)
            if isinstance(known, RecentRow):
                assert known.value == self.server.get(entry)
            prefix = (entry.partition, entry.space, entry.key[:8])
            rows = self.recent.prefix(prefix)
            if isinstance(rows, dict):
                assert rows == self.under(prefix)

    def under(self, prefix: recent_rows.Prefix) -> dict[bytes, bytes]:
        return {
            entry.key: value
            for entry, value in self.server.items()
            if (entry.partition, entry.space, entry.key[:8]) == prefix
        }


class SmallMachine(RecentMachine):
    """Forgets all the time."""


RecentMachine.TestCase.settings = settings(
    max_examples=by_profile(dev=20, ci=80),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)
TestRecentRows = RecentMachine.TestCase


def test_what_is_known_is_also_true_when_little_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_rows, "GENERATION_BYTES_MAX", 900)
    SmallMachine.TestCase.settings = RecentMachine.TestCase.settings
    SmallMachine.TestCase("runTest").runTest()


def test_what_was_written_need_not_be_read() -> None:
    rows = RecentRows()
    entry = EntryKey(0, Space.HEAD, PREFIXES[0] + b"a")
    assert isinstance(rows.row(entry), ReadMark)
    changes = Changes(entries={entry: b"one"})
    rows.begin(changes)
    assert isinstance(rows.row(entry), ReadMark)
    rows.done(changes)
    assert rows.row(entry) == RecentRow(b"one")


def test_only_scans_of_whole_prefixes_are_remembered() -> None:
    start = PREFIXES[0]
    assert prefix_of(0, Space.HEAD, start, after_prefix(start)) == (0, Space.HEAD, start)
    assert prefix_of(0, Space.HEAD, start, None) is None
    assert prefix_of(0, Space.HEAD, start[:-1], after_prefix(start[:-1])) is None
