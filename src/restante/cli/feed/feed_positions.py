"""How far somebody has read along, kept in a file: it is only ever behind what is safe, never ahead."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from restante.cli.shared.new_files import new_file
from restante.decoders import json_decoder
from restante.errors import InvalidRequest


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    positions: dict[int, int]


class Positions:
    """The number after which to go on, for each partition. Without a file the positions are only remembered."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.found = {} if path is None else _read(path)
        """The positions at the start; partitions that nobody reads now stay in the file."""

    def record(self, safe: Mapping[int, int]) -> None:
        """All up to there is safe; it goes only forward. The file is replaced in one step, and is on the disk when this returns."""
        changed = {partition: number for partition, number in safe.items() if number > self.found.get(partition, -1)}
        if not changed:
            return
        self.found |= changed
        if self._path is not None:
            ordered = dict(sorted(self.found.items()))
            with new_file(self._path) as file:
                file.write(msgspec.json.format(msgspec.json.encode(_Kept(ordered)), indent=2) + b"\n")


def _read(path: Path) -> dict[int, int]:
    try:
        kept = json_decoder(_Kept).decode(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (msgspec.MsgspecError, ValueError) as error:
        raise InvalidRequest(f"{path} is no file of positions: {error}.") from error
    if any(number < 0 for pair in kept.positions.items() for number in pair):
        raise InvalidRequest(f"{path} is no file of positions: no number in it may be below 0.")
    return kept.positions
