"""Opens a store in a process of its own and tells, as JSON, what that took. Started by the workload `open_store`.

Arguments: the folder, and after how many peeks memory is read; on standard input the numbers of the recipients.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import restante
from bench.mail import recipient_name
from bench.process import resident_bytes
from restante.client.surface.surface import Hub


def main(folder: Path, resident_peeks: int, recipients: list[int]) -> dict[str, object]:
    imported = resident_bytes()
    start = time.perf_counter()
    hub = restante.open(folder)
    opened = time.perf_counter() - start
    with hub:
        resident_opened = resident_bytes()
        seconds = [_peek(hub, number) for number in recipients[:resident_peeks]]
        resident_peeked = resident_bytes()
        seconds += [_peek(hub, number) for number in recipients[resident_peeks:]]
    return {
        "open_seconds": opened,
        "resident_imported": imported,
        "resident_opened": resident_opened,
        "resident_peeked": resident_peeked,
        "peek_seconds": seconds,
    }


def _peek(hub: Hub, number: int) -> float:
    start = time.perf_counter()
    bundle = hub.recipient(recipient_name(number)).peek()
    assert bundle is not None
    assert bundle.raw_table.num_rows
    return time.perf_counter() - start


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), json.load(sys.stdin))))
