"""Contents of claim-check bundles, and who names which blob."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import xxhash

from restante.decoders import packed_decoder
from restante.errors import DataDamaged
from restante.hub.doctor.doctor_findings import Case, TakeStep
from restante.hub.doctor.doctor_mailboxes import examine_entries
from restante.hub.doctor.doctor_segments import read_whole
from restante.hub.mailboxes.claim_checks import ContentRow
from restante.model.mailboxes.bundle import decode_bundle
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.run import RunRow

_SHOWN_MAX = 20


def examine_contents(case: Case, step: TakeStep) -> list[int]:
    """Check each content against its checksums; gives the blobs they name."""
    named: list[int] = []

    def examine(key: bytes, value: bytes) -> None:
        row = packed_decoder(ContentRow).decode(value)
        named.extend(row.blobs)
        bundle = case.store.get(case.partition, Space.BUNDLE, key)
        if bundle is None or decode_bundle(bundle).inline:
            case.problem(f"content {key.hex()}", "There is no claim-check bundle that it belongs to.")
        for number, length, check in zip(row.blobs, row.lengths, row.checks, strict=True):
            with case.guard(f"content in blob {number}"):
                _examine_part(case, number, length, check)
            step()

    examine_entries(case, Space.CONTENT, "content", examine)
    return named


def _examine_part(case: Case, number: int, length: int, check: int) -> None:
    part = read_whole(case, f"content in blob {number}", BlobKey(case.partition, number), length)
    case.checked.blobs += 1
    if xxhash.xxh3_64_intdigest(part) != check:
        raise DataDamaged("It fails its checksum.")


def check_names(case: Case, runs: Sequence[RunRow], others: Sequence[int]) -> None:
    """Check that no blob is named twice or is beyond the counter; a blob that nobody names was left by a crash."""
    named = Counter([*(place.blob for run in runs for place in run.segments), *others])
    for blob, times in named.items():
        if times > 1:
            case.problem(f"blob {blob}", f"It is named {times} times.")
        if blob >= case.counters.next_blob:
            case.problem(f"blob {blob}", f"It is in use, but the counters would give {case.counters.next_blob} next.")
    orphans = [blob.number for blob in case.store.blobs(case.partition) if blob.number not in named]
    if orphans:
        listed = ", ".join(map(str, orphans[:_SHOWN_MAX])) + (" …" if len(orphans) > _SHOWN_MAX else "")
        case.note(
            "blobs", f"Nobody names {len(orphans)} ({listed}): left by a crash, dropped when a hub opens the folder."
        )
