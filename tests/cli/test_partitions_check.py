"""`restante partitions check`: against figures of a program of its own, FNV-1a and all, in plain Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from restante import limits
from tests.cli.places import run

FIGURES = {
    16: (6_211, 6_290, 0.334, 0.64, 10, 1.573, -2.451),
    250: (314, 486, 6.576, 21.5, 26, 692.165, 19.859),
    256: (362, 422, 2.493, 8.032, 85, 97.971, -6.953),
    1_024: (78, 113, 4.5777, 20.128, 270, 331.295, -15.292),
}
"""Of user-1 to user-100000: least, most, mean and worst deviation, the worst partition, chi-squared, z."""


def checked(*options: str, stdin: bytes | None = None) -> dict[str, Any]:
    result = run("partitions", "check", *options, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert isinstance(answer, dict)
    return answer


@pytest.mark.parametrize("count", FIGURES)
def test_the_figures_are_those_of_another_program(count: int) -> None:
    found = checked("--names", "user-{1..100000}", "--count", str(count))
    least, most, mean, worst, partition, chi_squared, z = FIGURES[count]
    assert (found["names"], found["partition_count"], found["expected"]) == (100_000, count, 100_000 / count)
    assert (found["least"], found["most"], found["worst_partition"]) == (least, most, partition)
    assert found["mean_deviation_percent"] == pytest.approx(mean, abs=1e-3)
    assert found["worst_deviation_percent"] == pytest.approx(worst, abs=1e-3)
    assert found["chi_squared"] == pytest.approx(chi_squared, abs=1e-3)
    assert found["z"] == pytest.approx(z, abs=1e-3)


def test_a_pattern_a_file_and_standard_input_of_the_same_names_are_the_same(tmp_path: Path) -> None:
    lines = "".join(f"Zoë {number:04d}!\r\n\n" for number in range(98, 1_235)).encode()
    file = tmp_path / "names.txt"
    file.write_bytes(lines)
    by_pattern = checked("--names", "Zoë {0098..1234}!", "--count", "8")
    assert by_pattern["names"] == 1_137
    assert checked("--names", str(file), "--count", "8") == by_pattern
    assert checked("--names", "-", "--count", "8", stdin=lines) == by_pattern


def test_people_see_a_table_a_histogram_and_what_it_means() -> None:
    even = run("partitions", "check", "--names", "user-{1..100000}", "--count", "256").stdout
    assert "100,000 names in 256 partitions, 390.6 each if even; 362 to 422 found." in even
    assert "386–393           64   " + "█" * 40 in even
    assert even.endswith("As even as chance, or more so.\n")
    uneven = run("partitions", "check", "--names", "user-{1..100000}", "--count", "250").stdout
    assert "Less even than chance" in uneven
    assert uneven.endswith("A new data folder takes powers of two only.\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "There are no names"),
        (b"\n\n", "There are no names"),
        (b"a\n\xff\n", "Line 2 is not UTF-8"),
        (b"a\nb\n" + "é".encode() * 257, "Line 3 has more than 256 characters"),
        (b"x" * 10_000, "Line 1 has more than 256 characters"),
    ],
)
def test_what_is_no_list_of_names_is_refused(content: bytes, said: str) -> None:
    result = run("partitions", "check", "--names", "-", stdin=content)
    assert (result.exit_code, result.stderr.split(":")[0]) == (1, "error invalid_request")
    assert said in result.stderr


@pytest.mark.parametrize("names", ["user-{9..1}", f"user-{{1..{limits.CHECKED_NAMES_MAX + 1}}}", "no such file"])
def test_names_that_cannot_be_had_are_refused(names: str) -> None:
    assert run("partitions", "check", "--names", names).exit_code == 1
