"""A program that reads damaged Arrow as others wrote it, and sends it into a hub of its own; it must live to the end."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa

import restante
from restante.client.surface.surface import Hub
from restante.errors import RestanteError
from restante.limits import MIB
from tests.server.damaging import damaged_stream

WARM_UP = 0.25
GROWTH_BYTES_MAX = 96 * MIB


def main(folder: str, count: int) -> None:
    seen: Counter[str] = Counter()
    before = 0
    with restante.open(folder) as hub:
        for number in range(count):
            if number == round(count * WARM_UP):
                before = resident()
            seen[sent(hub, number)] += 1
        grown = resident() - before
    assert grown < GROWTH_BYTES_MAX, f"grown by {grown / MIB:.0f} MiB"
    print(json.dumps(seen | {"grown_mib": grown // MIB}))  # read by the test


def sent(hub: Hub, number: int) -> str:
    try:
        table = pa.ipc.open_stream(damaged_stream(number)).read_all()
    except (pa.ArrowException, OSError, ValueError):
        return "unreadable"
    try:
        if number % 3:
            hub.producer.send(table)
        else:
            hub.consignment("night").stage("writer", 0, table, parcel=number)
    except RestanteError:
        return "refused"
    return "accepted"


def resident() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
