"""What somebody wants to acknowledge, before it is known what there is: picked at the borders where mistakes are made."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from hypothesis import strategies as st

from restante.model.batches.batch_answers import ItemRange
from tests.batches.model import Batch

CHUNK = 36_000
SEGMENT = 250 * CHUNK
SIZES = [
    *(1, 1, 2, 7, 8, 9, 10, 63, 64, 65, 1_000),
    *(CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 100_000),
    *(SEGMENT - 1, SEGMENT, SEGMENT + 1, 2 * SEGMENT, 3 * SEGMENT + 77, 10**9),
]
"""Of groups. Bits are kept in chunks and segments of these sizes, so their borders are of interest."""
RUN = 1_500
"""Of ids in one call, when many are to come."""
NO_GROUP = 9_999_999_999_999
NOBODY = str(UUID(int=0xDEAD))


class Spot(NamedTuple):
    """An index in a group that is not known yet."""

    how: str
    number: int
    off: int

    def found(self, upto: int, before: int) -> int:
        """The index in a group of so many, whose first item comes after so many others of its batch."""
        step = {"byte": 8, "chunk": CHUNK, "segment": SEGMENT}.get(self.how)
        if step is not None:
            border = (before // step + self.number % (upto // step + 2)) * step - before
            return max(0, border + self.off)
        if self.how == "start":
            return self.number % 10
        if self.how == "end":
            return max(0, upto - 1 + self.off)
        return self.number % upto


class Items(NamedTuple):
    """A few items of some group, or a run of many of them; or a range."""

    batch: int
    group: int
    spots: tuple[Spot, ...]
    how: str


HOW = ["items"] * 5 + ["range"] * 5 + ["run", "run", "whole", "whole", "upper", "nobody", "no group", "far"]
SPOTS = st.builds(
    Spot,
    st.sampled_from(["start", "end", "byte", "chunk", "segment", "any", "any"]),
    st.integers(0, 10**9),
    st.integers(-2, 2),
)
ITEMS = st.builds(
    Items,
    batch=st.integers(0, 6),
    group=st.integers(0, 6),
    spots=st.lists(SPOTS, min_size=2, max_size=6).map(tuple),
    how=st.sampled_from(HOW),
)


class Named(NamedTuple):
    items: list[str]
    ranges: list[ItemRange]


def name(wish: Items, batches: list[Batch], named: Named) -> None:
    """Write the wish as item ids or ranges of what there is."""
    batch = batches[wish.batch % len(batches)] if batches else None
    groups = list(batch.groups.items()) if batch is not None else []
    if batch is None or not groups or wish.how == "nobody":
        named.items.append(f"{NOBODY}:0:{wish.group}")
        named.ranges.append(ItemRange(group=f"{NOBODY}:{wish.group}", start=0, upto=5))
        return
    at = wish.group % len(groups)
    group, upto = groups[at][0], groups[at][1].upto
    before = sum(known.upto for _, known in groups[:at])
    indices = [spot.found(upto, before) for spot in wish.spots]
    _write(wish.how, f"{batch.id}:{group}", upto, indices, named)


def _write(how: str, group: str, upto: int, indices: list[int], named: Named) -> None:
    first, last = sorted(indices[:2])
    match how:
        case "range":
            named.ranges.append(ItemRange(group=group, start=first, upto=last + 1))
        case "whole":
            named.ranges.append(ItemRange(group=group, start=0, upto=upto))
        case "run":
            named.items.extend(f"{group}:{index}" for index in range(first, first + RUN))
        case "upper":
            named.items.extend([f"{group}:{first}", f"{group.upper()}:{first}", f"{group.upper()}:{last}"])
            named.ranges.append(ItemRange(group=group.upper(), start=first, upto=last + 1))
        case "no group":
            missing = f"{group[:36]}:{NO_GROUP}"
            named.items.append(f"{missing}:{first}")
            named.ranges.append(ItemRange(group=missing, start=first, upto=last + 1))
        case "far":
            named.items.extend([f"{group}:{upto}", f"{group}:{NO_GROUP}"])
            named.ranges.append(ItemRange(group=group, start=upto, upto=upto + 1))
            named.ranges.append(ItemRange(group=group, start=max(0, upto - 2), upto=2**62))
        case _:
            named.items.extend(f"{group}:{index}" for index in indices)


MALFORMED = [
    *("", ":", "::", "0", "nobody:0:0", f"{NOBODY}:0", f"{NOBODY}:0:", f"{NOBODY}::0", f"{NOBODY}:0:0:0"),
    *(f"{NOBODY}:0:-1", f"{NOBODY}:0:+1", f"{NOBODY}:0:01", f"{NOBODY}:00:1", f"{NOBODY}:-1:1", f"{NOBODY}:0:1_0"),
    *(f"{NOBODY}:0: 1", f"{NOBODY}:0:1 ", f"{NOBODY}:0:1\n", f" {NOBODY}:0:1", f"{NOBODY}:0:1.0", f"{NOBODY}:0:1e3"),
    *(f"{NOBODY}:0:\u0663", f"{NOBODY}:0:\u00b2", f"{NOBODY}:0:\ud800", f"{NOBODY}:0:0\n{NOBODY}:0:1"),
    *(f"{NOBODY.replace('-', '')}:0:0", f"{{{NOBODY}}}:0:0", f"urn:uuid:{NOBODY}:0:0", f"{NOBODY[:-1]}g:0:0"),
]
MALFORMED_RANGES = [
    *(ItemRange(group=f"{NOBODY}:0", start=start, upto=upto) for start, upto in ((0, 0), (5, 5), (5, 4), (-1, 4))),
    *(ItemRange(group=group, start=0, upto=1) for group in ("", NOBODY, f"{NOBODY}:", f"{NOBODY}:01", f"{NOBODY}:0:0")),
    ItemRange(group=f"{NOBODY}:0\n", start=0, upto=1),
]
