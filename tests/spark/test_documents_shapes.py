"""Shapes, layouts and names of documents, without Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante import limits
from restante.errors import InvalidRequest
from restante.spark.documents.column_types import layout_of, schema_of
from restante.spark.documents.fidelity import Fidelity
from restante.spark.documents.layouts import EMPTY, Layout, described, grown, misfits
from restante.spark.documents.names import column_name, path_text, property_name
from restante.spark.documents.shapes import (
    NOTHING,
    Kind,
    Shape,
    an_array,
    an_object,
    merge,
    merged,
    place_for,
    scalar,
)
from restante.spark.documents.type_text import read_type_text

WELL_DEFINED, FULL_FIDELITY = Fidelity.WELL_DEFINED, Fidelity.FULL_FIDELITY
FIDELITIES = st.sampled_from([WELL_DEFINED, FULL_FIDELITY])
POSITIONS = st.tuples(st.integers(0, 3), st.integers(0, 9))
SCALARS = st.sampled_from([kind for kind in Kind if kind not in (Kind.OBJECT, Kind.ARRAY)])
NAMES = st.sampled_from(["a", "A", "b", "unit price", "", "ø"])
SHAPES: st.SearchStrategy[Shape] = st.recursive(
    st.just(NOTHING) | st.builds(scalar, SCALARS, POSITIONS),
    lambda inner: (
        st.builds(an_array, inner, POSITIONS)
        | st.builds(an_object, st.dictionaries(NAMES, inner, max_size=3), POSITIONS)
        | st.builds(merge, inner, inner)
    ),
    max_leaves=12,
)
DOCUMENTS = st.builds(an_object, st.dictionaries(NAMES, SHAPES, max_size=4), POSITIONS)


@given(SHAPES, SHAPES, SHAPES)
def test_merging_is_associative(one: Shape, two: Shape, three: Shape) -> None:
    assert merge(merge(one, two), three) == merge(one, merge(two, three))


@given(SHAPES, SHAPES)
def test_merging_is_commutative(one: Shape, two: Shape) -> None:
    assert merge(one, two) == merge(two, one)


@given(SHAPES, SHAPES)
def test_merging_again_changes_nothing(one: Shape, two: Shape) -> None:
    both = merge(one, two)
    assert merge(both, one) == both
    assert merge(both, both) == both
    assert merge(one, NOTHING) == one


@given(st.lists(DOCUMENTS, max_size=5), FIDELITIES)
def test_a_layout_does_not_depend_on_the_order_of_rows(shapes: list[Shape], fidelity: Fidelity) -> None:
    turned = list(reversed(shapes))
    assert grown(EMPTY, merged(shapes), fidelity) == grown(EMPTY, merged(turned), fidelity)


@given(DOCUMENTS, DOCUMENTS, FIDELITIES)
def test_a_layout_only_grows(one: Shape, two: Shape, fidelity: Fidelity) -> None:
    before = grown(EMPTY, one, fidelity)
    after = grown(before, two, fidelity)
    assert _is_within(before, after)
    assert grown(after, two, fidelity) == after


@given(DOCUMENTS, FIDELITIES)
def test_a_layout_is_read_back_from_the_type_of_its_column(shape: Shape, fidelity: Fidelity) -> None:
    layout = grown(EMPTY, shape, fidelity)
    assert layout_of(schema_of(layout, fidelity), fidelity) == layout


@given(DOCUMENTS, DOCUMENTS)
def test_with_full_fidelity_whatever_says_something_has_a_place(one: Shape, two: Shape) -> None:
    layout = grown(grown(EMPTY, one, FULL_FIDELITY), two, FULL_FIDELITY)
    left = {misfit.found.split("<")[0] for shape in (one, two) for misfit in misfits(layout, shape)}
    assert left <= {"object", "array"}, "only empty objects and arrays define nothing"


@given(DOCUMENTS)
def test_well_defined_columns_have_one_type_each(shape: Shape) -> None:
    def check(layout: Layout) -> None:
        assert len(layout.kinds) == 1
        for _, inner in layout.columns.values():
            check(inner)
        if layout.element is not None:
            check(layout.element)

    check(grown(EMPTY, shape, WELL_DEFINED))


@given(st.text(max_size=8), st.sets(st.text(max_size=4), max_size=4))
def test_a_columns_name_gives_the_property_back(name: str, others: set[str]) -> None:
    taken: set[str] = set()
    for other in sorted(others - {name}):
        taken.add(column_name(other, taken))
    column = column_name(name, taken)
    assert property_name(column) == name
    assert column.lower() not in {other.lower() for other in taken}
    assert not set(column) & set(" ,;{}()\n\t=.`")


@pytest.mark.parametrize(
    ("name", "taken", "column"),
    [
        ("price", [], "price"),
        ("unit price", [], "unit%20price"),
        ("a.b", [], "a%2Eb"),
        ("100%", [], "100%25"),
        ("", [], "%"),
        ("Price", ["price"], "%50rice"),
        ("PRICE", ["price", "%50rice"], "%50%52ICE"),
        ("blåbær", [], "blåbær"),
    ],
)
def test_names_are_written_out_only_where_they_must_be(name: str, taken: list[str], column: str) -> None:
    assert column_name(name, taken) == column


def test_paths_are_written_as_people_write_them() -> None:
    assert path_text(()) == "$"
    assert path_text(("order", "unit price", "é")) == "$.order['unit price'].é"


def test_the_first_value_by_position_defines_the_type() -> None:
    late, early = _document(a=scalar(Kind.STRING, (0, 7))), _document(a=scalar(Kind.BOOLEAN, (0, 3)))
    assert _column(grown(EMPTY, merge(late, early), WELL_DEFINED), "a").kinds == (Kind.BOOLEAN,)


def test_numbers_of_the_first_batch_merge_to_the_widest() -> None:
    both = merge(_document(a=scalar(Kind.LONG, (0, 1))), _document(a=scalar(Kind.DOUBLE, (0, 2))))
    assert _column(grown(EMPTY, both, WELL_DEFINED), "a").kinds == (Kind.DOUBLE,)


def test_a_fraction_has_no_place_in_a_column_of_whole_numbers() -> None:
    known = grown(EMPTY, _document(a=scalar(Kind.LONG, (0, 1))), WELL_DEFINED)
    fraction = _document(a=scalar(Kind.DOUBLE, (0, 2)))
    assert grown(known, fraction, WELL_DEFINED) == known
    assert [tuple(misfit) for misfit in misfits(known, fraction)] == [(("a",), "long", "double")]


def test_a_whole_number_has_its_place_among_fractions() -> None:
    known = grown(EMPTY, _document(a=scalar(Kind.DOUBLE, (0, 1))), WELL_DEFINED)
    assert not list(misfits(known, _document(a=scalar(Kind.LONG, (0, 2)))))
    assert place_for(Kind.DOUBLE, [Kind.LONG]) is None


def test_null_empty_objects_and_empty_arrays_define_nothing() -> None:
    empty = _document(a=NOTHING, b=an_object({}, (0, 1)), c=an_array(NOTHING, (0, 1)))
    for fidelity in (WELL_DEFINED, FULL_FIDELITY):
        assert grown(EMPTY, empty, fidelity) == EMPTY
    assert not list(misfits(EMPTY, empty))


def test_what_is_deeper_than_the_limit_is_kept_aside() -> None:
    shape = scalar(Kind.LONG, (0, 1))
    for _ in range(limits.DOCUMENT_DEPTH_MAX + 1):
        shape = an_object({"a": shape}, (0, 1))
    deep = merge(shape, _document(b=scalar(Kind.LONG, (0, 1))))
    layout = grown(EMPTY, deep, WELL_DEFINED)
    assert list(layout.columns) == ["b"]
    assert [misfit.expected for misfit in misfits(layout, deep)] == ["none"]


def test_columns_beyond_the_limit_are_kept_aside() -> None:
    many = _document(
        **{f"p{number:05}": scalar(Kind.LONG, (0, 1)) for number in range(limits.DOCUMENT_COLUMNS_MAX + 2)}
    )
    for fidelity in (WELL_DEFINED, FULL_FIDELITY):
        layout = grown(EMPTY, many, fidelity)
        assert len(layout.columns) == limits.DOCUMENT_COLUMNS_MAX
        assert grown(layout, many, fidelity) == layout
        assert len(list(misfits(layout, many))) == 2


def test_a_types_text_is_read() -> None:
    read = read_type_text("OBJECT<``: VOID, `q``r`: ARRAY<OBJECT<a: DECIMAL(3,1)>>, x: DECIMAL(19,0)>", (4, 5))
    assert described(read.shape) == "object"
    assert read.shape.properties[""] == NOTHING
    assert described(read.shape.properties["q`r"]) == "array<object>"
    assert read.shape.properties["x"] == scalar(Kind.DECIMAL, (4, 5))
    assert not read.mixed


def test_mixed_arrays_are_named_by_the_outermost() -> None:
    text = "OBJECT<a: ARRAY<OBJECT<b: ARRAY<VARIANT>>>, c: OBJECT<d: ARRAY<DECIMAL(20,0)>>, VARIANT: BIGINT>"
    assert read_type_text(text, (0, 0)).mixed == {("a",), ("c", "d")}


@pytest.mark.parametrize("text", ["", "OBJECT<a>", "OBJECT<a: BIGINT", "TIMESTAMP", "BIGINT>", "ARRAY<BIGINT"])
def test_a_text_that_spark_does_not_write_is_no_type(text: str) -> None:
    with pytest.raises(AssertionError, match="a type that Spark is not known to write"):
        read_type_text(text, (0, 0))


def test_a_table_of_another_fidelity_is_refused() -> None:
    well_defined = schema_of(grown(EMPTY, _document(a=scalar(Kind.LONG, (0, 1))), WELL_DEFINED), WELL_DEFINED)
    with pytest.raises(InvalidRequest, match=r"\$\.a has the type bigint"):
        layout_of(well_defined, FULL_FIDELITY)


def _document(**properties: Shape) -> Shape:
    return an_object(properties, (0, 0))


def _column(layout: Layout, name: str) -> Layout:
    return layout.columns[name][1]


def _is_within(before: Layout, after: Layout) -> bool:
    return (
        after.kinds[: len(before.kinds)] == before.kinds
        and list(after.columns)[: len(before.columns)] == list(before.columns)
        and all(
            after.columns[name][0] == column and _is_within(inner, after.columns[name][1])
            for name, (column, inner) in before.columns.items()
        )
        and (before.element is None or (after.element is not None and _is_within(before.element, after.element)))
    )
