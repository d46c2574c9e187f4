"""Tests are given out in units: of a group, or of some neighbours in a file."""

from __future__ import annotations

from tests.work_units import units_of

MOST = 8


def group_of(name: str) -> str:
    return name.rpartition("@")[2]


def test_a_group_is_one_unit_and_a_file_is_several() -> None:
    names = ["a.py::one@spark", "b.py::two@spark", *(f"c.py::{number}" for number in range(MOST + 1)), "d.py::0"]
    units = dict(units_of(names, group_of, MOST))
    assert units.keys() == set(names)
    assert units["a.py::one@spark"] == units["b.py::two@spark"] == "spark"
    first, *others = [units[f"c.py::{number}"] for number in range(MOST + 1)]
    assert others == [first] * (MOST - 1) + [others[-1]]
    assert len({first, others[-1], units["d.py::0"], "spark"}) == 4
