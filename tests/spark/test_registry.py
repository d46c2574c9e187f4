"""Jobs by name, and options of text."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from restante.errors import InvalidRequest
from restante.spark import jobs
from restante.spark.running import registry
from restante.spark.source.option_words import struct_of, struct_of_text, words_for

SAMPLES = Path(__file__).parent / "sample_jobs"


@pytest.fixture(autouse=True)
def sample_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "__path__", [*jobs.__path__, str(SAMPLES)])


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One of each kind."""

    number: Annotated[int, msgspec.Meta(ge=1, le=9)] = 3
    share: float = 0.5
    chosen: bool = False
    text: str | None = None
    perhaps: int | None = None
    names: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    since: datetime | None = None


def test_jobs_are_found_by_their_names_alone() -> None:
    names = [job.name for job in registry.all_jobs()]
    assert {"counting", "ticking"} < set(names)
    assert names == sorted(names)
    assert "work" not in names


def test_every_job_has_what_the_commands_show() -> None:
    for job in registry.all_jobs():
        assert job.summary.strip()
        assert "\n" not in job.summary
        for option in job.options():
            assert option.description, f"{option.name} of {job.name} says what it is for"
        assert isinstance(job.options_of({}), job.kind)


def test_a_job_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(InvalidRequest, match=r"There is no job 'countin'\. There are .*counting, .*ticking"):
        registry.job("countin")


def test_options_tell_what_they_are() -> None:
    to, names, ends = registry.job("counting").options()
    assert (to.name, to.type, to.default) == ("to", "a whole number of at least 0 and at most 1,000,000", 10)
    assert to.description == "How far."
    assert (names.type, names.default) == ("a list, each a text", ())
    assert ends.type == "one of in a task, in the driver, refused, well"


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"number": "7"}, 7),
        ({"share": "0.25"}, 0.25),
        ({"chosen": "true"}, True),
        ({"text": "null"}, "null"),
        ({"perhaps": "4"}, 4),
        ({"names": "a, b"}, ("a", "b")),
        ({"names": '["a,b"]'}, ("a,b",)),
        ({"names": ""}, ()),
        ({"counts": '{"a": 1}'}, {"a": 1}),
        ({"since": "2026-01-31T12:00:00Z"}, datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_texts_become_values(given: dict[str, str], value: object) -> None:
    made = struct_of_text(Sample, given, whose="sample")
    assert getattr(made, *given) == value
    assert getattr(struct_of(Sample, {next(iter(given)): value}, whose="sample"), *given) == value


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"number": "many"}, "sample: number must be a whole number of at least 1 and at most 9, not 'many'."),
        ({"number": "10"}, "sample: number must be a whole number of at least 1 and at most 9, not '10'."),
        ({"share": "half"}, "sample: share must be a number, not 'half'."),
        ({"chosen": "perhaps"}, "sample: chosen must be true or false, not 'perhaps'."),
        ({"counts": "a=1"}, "sample: counts must be a table, each value a whole number, not 'a=1'."),
        ({"counts": "{"}, "sample: counts must be a table, each value a whole number, not '{'."),
        ({"since": "soon"}, "sample: since must be a time such as 2030-01-31T12:00:00Z, not 'soon'."),
        (
            {"nmber": "1"},
            "sample: there is no option 'nmber'. There are number, share, chosen, text, perhaps, names, counts, since.",
        ),
    ],
)
def test_what_is_wrong_with_a_text_is_told_in_words(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        struct_of_text(Sample, given, whose="sample")
    assert refused.value.message == told


def test_values_of_a_file_keep_their_types() -> None:
    with pytest.raises(InvalidRequest, match=r"number must be a whole number .*, not '7'"):
        struct_of(Sample, {"number": "7"}, whose="sample")


def test_what_options_have_against_one_another_is_told() -> None:
    with pytest.raises(InvalidRequest, match=r"counting: there are more names than numbers\."):
        registry.job("counting").options_of_text({"to": "1", "names": "a,b"})


def test_a_long_value_is_cut() -> None:
    with pytest.raises(InvalidRequest) as refused:
        struct_of_text(Sample, {"number": "x" * 1_000}, whose="sample")
    assert len(refused.value.message) < 200


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (int | None, "a whole number"),
        (int | str, "a whole number or a text"),
        (Annotated[str, msgspec.Meta(min_length=1)], "a text that is not empty"),
        (list[int], "a list, each a whole number"),
        (Sample, "a table with number, share, chosen, text, perhaps, names, counts, since"),
        (Any, "a value that suits it"),
    ],
)
def test_types_in_words(kind: object, words: str) -> None:
    assert words_for(kind) == words
