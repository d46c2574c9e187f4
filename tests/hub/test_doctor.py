"""The doctor finds whatever is wrong, names it, and survives it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from restante.hub.doctor.doctor import Finding, Severity, examine
from restante.hub.engine.partitions import PARTITION_KEY
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.run import decode_run, encode_run
from restante.model.storage.segment import Area
from restante.ports.store import Store
from restante.stores.memory import MemoryStore
from restante.stores.sqlite import SqliteStore
from tests.cli.patients import Patient, fill, filled_memory

Damage = Callable[[Patient], object]


@pytest.fixture(scope="module")
def filled_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It is copied, for to fill one takes longer than most tests."""
    folder = tmp_path_factory.mktemp("filled") / "data"
    store = SqliteStore.open(folder)
    fill(store)
    store.close()
    return folder


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, filled_folder: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        shutil.copytree(filled_folder, tmp_path / "data")
    store: Store = filled_memory() if request.param == "memory" else SqliteStore.open(tmp_path / "data")
    yield store
    store.close()


@pytest.fixture
def patient(store: Store) -> Patient:
    return Patient(store)


def _set(index: int, value: object) -> Callable[[list[Any]], list[Any]]:
    """A row with one field changed."""
    return lambda row: [*row[:index], value, *row[index + 1 :]]


def _in_row(number: int, field: str, value: int) -> Callable[[Any, Any], None]:
    def patch(_: Any, records: Any) -> None:
        records[field][number] = value

    return patch


def _in_line(field: str, value: int) -> Callable[[Any, Any], None]:
    def patch(lines: Any, _: Any) -> None:
        lines[field][1] = value

    return patch


def _swap_places(lines: Any, records: Any) -> None:
    row = int(lines["row"][lines["count"] > 1][0])
    records["place"][[row, row + 1]] = records["place"][[row + 1, row]]


def _lengthen_drawer(lines: Any, _: Any) -> None:
    lines["count"][0] += 1


def _take_place_twice(lines: Any, records: Any) -> None:
    """The first message of some drawer takes place 0 too: the places of each drawer ascend as before."""
    firsts = lines["row"][records["place"][lines["row"]] > 0]
    records["place"][firsts[0]] = 0


def _swap_lines(lines: Any, _: Any) -> None:
    lines["cabinet_hash"][:] = 0


def _edit_run(patient: Patient, **fields: object) -> None:
    row = patient.runs()[0]
    key = next(key for key, value in patient.entries(Space.RUN) if decode_run(value) == row)
    patient.put(Space.RUN, key, encode_run(msgspec.structs.replace(row, **fields)))


def _rename_run(patient: Patient) -> None:
    key, value = patient.entries(Space.RUN)[0]
    patient.put(Space.RUN, key, None)
    patient.put(Space.RUN, b"\0" * 7 + b"\xee", value)


def _name_twice(patient: Patient) -> None:
    small, large = patient.runs()[-1], patient.runs()[0]
    _edit_run(patient, segments=(*large.segments, *small.segments))


def _lengthen(patient: Patient) -> None:
    blob, _, content = patient.largest()
    patient.replace(blob, content + b"more")


def _shorten(patient: Patient) -> None:
    blob, _, content = patient.largest()
    patient.replace(blob, content[:-1])


def _damage_content(patient: Patient) -> None:
    _, value = patient.entries(Space.CONTENT)[0]
    blob = BlobKey(0, msgspec.msgpack.decode(value)[0][0])
    patient.replace(blob, b"c0ntent " * 100)


def _unindex(patient: Patient) -> None:
    patient.put(Space.SETTLEMENT, patient.entries(Space.SETTLEMENT)[0][0], None)


def _forget_change(patient: Patient, kind: str) -> None:
    patient.put(Space.CHANGE, patient.change(kind)[0], None)


def _drop_bundle(patient: Patient, *, is_open: bool) -> None:
    rows = [(key, msgspec.msgpack.decode(value)) for key, value in patient.entries(Space.BUNDLE)]
    patient.put(Space.BUNDLE, next(key for key, row in rows if (row[12] == 0) == is_open), None)


def _edit_open_bundle(patient: Patient, index: int, change: int) -> None:
    for key, value in patient.entries(Space.BUNDLE):
        row = msgspec.msgpack.decode(value)
        if row[0] == "bob" and not row[12]:
            patient.put(Space.BUNDLE, key, msgspec.msgpack.encode(_set(index, row[index] + change)(row)))


def _move_head(patient: Patient) -> None:
    key, value = patient.head_of("bob")
    patient.put(Space.HEAD, key, None)
    patient.put(Space.HEAD, b"\0" * 8 + key[8:], value)


def _overlap_bundles(patient: Patient) -> None:
    key, value = next(e for e in patient.entries(Space.BUNDLE) if msgspec.msgpack.decode(e[1])[0] == "bob")
    patient.put(Space.BUNDLE, key[:8] + b"\x01" * 16 + key[24:], value)


DAMAGES: dict[str, tuple[Damage, str]] = {
    "deed": (lambda p: p.put(Space.META, b"deed", b"\x93\x01\x00\x00"), "It speaks of 0 partitions"),
    "no deed": (lambda p: p.put(Space.META, b"deed", None), "It is missing, but partition 0 is in use"),
    "deed of nonsense": (lambda p: p.put(Space.META, b"deed", b"\xc1"), "makes no sense"),
    "newer deed": (lambda p: p.put(Space.META, b"deed", b"\x93\x63\x10\x00"), "format version 99"),
    "waiting": (lambda p: p.edit_counters(waiting=7), "the counter says 7"),
    "visible": (lambda p: p.edit_counters(visible=20), "not within 1 to 20"),
    "next blob": (lambda p: p.edit_counters(next_blob=2), "the counters would give 2 next"),
    "no counters": (lambda p: p.put(Space.PARTITION, PARTITION_KEY, None), "They are missing"),
    "counters of nonsense": (lambda p: p.put(Space.PARTITION, PARTITION_KEY, b"\xff"), "makes no sense"),
    "run row": (lambda p: p.put(Space.RUN, p.entries(Space.RUN)[0][0], b"\x91"), "makes no sense"),
    "run name": (_rename_run, "kept under another name"),
    "runs overlap": (lambda p: _edit_run(p, last=p.runs()[-1].last), "overlap those of run"),
    "run ends early": (lambda p: _edit_run(p, last=p.runs()[0].last - 100), "beyond its last"),
    "run without segments": (lambda p: _edit_run(p, segments=()), "It has no segments"),
    "blob named twice": (_name_twice, "It is named 2 times"),
    "blob missing": (lambda p: p.drop(p.largest()[0]), "missing"),
    "blob too long": (_lengthen, "longer than"),
    "blob too short": (_shorten, "ends before"),
    "frame": (lambda p: p.replace(p.largest()[0], b"\0" * len(p.largest()[2])), "no segment"),
    "directory block": (lambda p: p.flip(Area.LEDGER, 5), "Block 0 of the ledger fails its checksum"),
    "last data block": (lambda p: p.flip(Area.DATA, -1), "of the data fails its checksum"),
    "places descend": (lambda p: p.forge(_swap_places), "places that do not ascend"),
    "place taken twice": (lambda p: p.forge(_take_place_twice), "taken twice"),
    "order of drawers": (lambda p: p.forge(_swap_lines), "wrong hash of its cabinet"),
    "drawer weight": (lambda p: p.forge(_in_line("weight", 99_999)), "another weight than its messages"),
    "drawer expiry": (lambda p: p.forge(_in_line("earliest_expiry", 3)), "another earliest expiry"),
    "drawer published": (lambda p: p.forge(_in_line("earliest_published", 3)), "another time of publishing"),
    "drawer first place": (lambda p: p.forge(_in_line("first_place", 77_777)), "does not begin with its first place"),
    "drawer last place": (lambda p: p.forge(_in_line("last_place", 99_999)), "does not end with its last place"),
    "drawer count": (lambda p: p.forge(_lengthen_drawer), "does not begin where the one before it ends"),
    "data span": (lambda p: p.forge(_in_row(2, "data_start", 1)), "does not begin where that of the row before"),
    "properties span": (lambda p: p.forge(_in_row(2, "properties_start", 9_999)), "The properties of row 2"),
    "message weight": (lambda p: p.forge(_in_row(0, "weight", 0)), "weighs nothing"),
    "message flags": (lambda p: p.forge(_in_row(0, "flags", 255)), "flags that nobody gives"),
    "document type": (lambda p: p.forge(_in_row(0, "document_type", 4_000_000)), "unknown document type"),
    "head of nonsense": (lambda p: p.put(Space.HEAD, p.head_of("bob")[0], b"\xc1"), "head row"),
    "head key": (
        lambda p: p.put(Space.HEAD, b"\0" * 8 + p.head_of("bob")[0][8:], p.head_of("bob")[1]),
        "There are two",
    ),
    "head under a wrong hash": (_move_head, "Its key does not begin with the recipient's hash"),
    "head beyond the log": (lambda p: p.edit_head("bob", _set(0, 99_999)), "does not hold"),
    "head moved back": (lambda p: p.edit_head("bob", _set(0, 1)), "It was dequeued up to"),
    "head forgets too much": (lambda p: p.edit_head("bob", _set(1, 1)), "past its retention"),
    "head without its mark": (lambda p: p.edit_head("bob", _set(2, None)), "does not name it"),
    "apart overlap": (lambda p: p.edit_head("cara", _set(3, [[5, 9, 1], [8, 12, 1]])), "out of order"),
    "open bundle without row": (lambda p: _drop_bundle(p, is_open=True), "has no row"),
    "open bundle's count": (lambda p: _edit_open_bundle(p, 5, 1), "do not agree"),
    "bundle's count": (lambda p: _edit_open_bundle(p, 5, 1), "It speaks of 21 messages; 20 are there"),
    "bundles overlap": (_overlap_bundles, "overlap"),
    "closed bundle without row": (lambda p: _drop_bundle(p, is_open=False), "No dequeued bundle"),
    "change lost": (lambda p: _forget_change(p, "withdrawn"), "There is no such change record"),
    "collected lost": (lambda p: _forget_change(p, "collected"), "No change record says the same"),
    "change beyond the log": (lambda p: p.put(Space.CHANGE, b"\x01" * 8, p.change("expired")[1]), "visible sequence"),
    "change not indexed": (_unindex, "The index of settlements does not lead to it"),
    "change counts wrong": (lambda p: p.edit(Space.CHANGE, 0, _set(5, 9)), "It speaks of 9 messages"),
    "content": (_damage_content, "It fails its checksum"),
    "content without bundle": (lambda p: p.put(Space.CONTENT, b"x" * 30, p.entries(Space.CONTENT)[0][1]), "belongs to"),
    "erased": (lambda p: p.edit(Space.ERASED, 0, _set(1, b"short")), "16 bytes"),
    "outbox": (lambda p: p.put(Space.OUTBOX, b"\0" * 7 + b"\1", b"\x90"), "makes no sense"),
}


def problems(patient: Patient) -> list[Finding]:
    return [finding for finding in patient.examined().findings if finding.severity is Severity.PROBLEM]


def test_a_lively_store_is_sound(patient: Patient) -> None:
    report = patient.examined()
    assert report.findings == ()
    assert report.sound
    assert report.checked.messages > 300
    for space in (Space.HEAD, Space.BUNDLE, Space.CHANGE, Space.CONTENT, Space.ERASED):
        assert patient.entries(space), "the lively store should have some of everything"
    assert len(patient.runs()) > 1


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_wrong_is_said(patient: Patient, name: str) -> None:
    damage, said = DAMAGES[name]
    damage(patient)
    details = [f"{finding.what}: {finding.detail}" for finding in problems(patient)]
    assert any(said in detail for detail in details), details


def test_examining_changes_nothing(patient: Patient) -> None:
    before = [(space, patient.entries(space)) for space in Space], patient.store.blobs(0)
    patient.examined()
    assert before == ([(space, patient.entries(space)) for space in Space], patient.store.blobs(0))


def test_a_damaged_block_is_named_with_run_block_and_drawers(patient: Patient) -> None:
    _, segment, _ = patient.largest()
    patient.flip(Area.DATA, 0)
    (found,) = problems(patient)
    run = patient.runs()[0]
    assert found.what == f"run {run.identity}, blob {run.segments[0].blob}"
    assert "Block 0 of the data" in found.detail
    with_data = [d for d in range(len(segment.drawers)) if segment.cabinet(d)[1] != "claims"]
    assert "/".join(segment.cabinet(with_data[0])) in found.detail
    assert "/".join(segment.cabinet(with_data[-1])) not in found.detail


def test_counts_are_not_compared_where_messages_cannot_be_read(patient: Patient) -> None:
    patient.flip(Area.LEDGER, -1)
    report = patient.examined()
    assert [finding.what for finding in report.findings if finding.severity is Severity.NOTE] == ["counts"]
    assert not any("wait" in finding.detail for finding in problems(patient))


def test_a_blob_that_nobody_names_is_a_note(patient: Patient) -> None:
    patient.store.put_blob(BlobKey(0, 4_000), [b"left by a crash"], fence=patient.store.raise_fences(1))
    report = patient.examined()
    assert report.sound
    assert [finding.severity for finding in report.findings] == [Severity.NOTE]
    assert "4000" in report.findings[0].detail


def test_a_store_that_was_never_used_is_sound() -> None:
    report = examine(MemoryStore())
    assert report.sound
    assert report.notes == 1


def test_mail_in_the_wrong_partition_is_found() -> None:
    store = filled_memory()
    store.raise_fences(2)
    patient = Patient(store)
    patient.edit(Space.META, 0, _set(1, 2))
    assert any("belongs to another partition" in finding.detail for finding in problems(patient))


def test_progress_reaches_the_end(patient: Patient) -> None:
    seen: list[tuple[int, int]] = []
    examine(patient.store, progress=lambda done, total: seen.append((done, total)))
    blobs = len(patient.store.blobs(0))
    assert seen == [(done, blobs) for done in range(blobs + 1)]


def test_only_so_many_findings_are_listed_and_all_are_counted(patient: Patient) -> None:
    for number in range(1_200):
        patient.put(Space.OUTBOX, number.to_bytes(8, "big"), b"\xc1")
    report = patient.examined()
    assert len(report.findings) == 1_000
    assert report.problems == 1_200


@pytest.mark.parametrize("seed", range(40))
def test_no_flipped_bit_in_a_small_row_is_too_much_for_the_doctor(seed: int) -> None:
    """Whether a flip is found depends on what it makes of the row; that it is survived does not."""
    chance = random.Random(seed)  # a repeatable choice, not a secret
    patient = Patient(filled_memory())
    for space in Space:
        for key, value in patient.entries(space):
            if value and chance.random() < 0.1:
                damaged = bytearray(value)
                damaged[chance.randrange(len(value))] ^= 1 << chance.randrange(8)
                patient.put(space, key, bytes(damaged))
    patient.examined()


@pytest.mark.parametrize("seed", range(40))
def test_every_flipped_bit_in_a_segment_is_found(seed: int) -> None:
    chance = random.Random(seed)
    patient = Patient(filled_memory())
    blob, _, content = patient.largest()
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    patient.replace(blob, content)
    assert problems(patient)
