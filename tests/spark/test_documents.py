"""Documents as columns, on Spark: a table of odd ones, and how a table grows."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, VariantType

from restante import limits
from restante.model.columns import media_types
from restante.spark.documents import MISMATCHES, Fidelity, infer, mismatches, survey, with_document
from restante.spark.documents.texts import JSON_PATTERN

WELL_DEFINED, FULL_FIDELITY = Fidelity.WELL_DEFINED, Fidelity.FULL_FIDELITY
FRAME = "partition int, sequence_number long, data binary, media_type string"


class Odd(NamedTuple):
    """A property, its value in three documents as JSON, and what is made of them."""

    name: str
    given: tuple[str, str, str]
    column: str
    type: str
    well_defined: list[Any]
    full_fidelity: list[Any]


LARGE = 12345678901234567890
ODD = [
    Odd("nulls", ("null", "1", "null"), "nulls", "bigint", [None, 1, None], [None, {"long": 1}, None]),
    Odd(
        "mixed_numbers",
        ("1", "2.5", "1e5"),
        "mixed_numbers",
        "double",
        [1.0, 2.5, 1e5],
        [{"long": 1}, {"double": 2.5}, {"double": 1e5}],
    ),
    Odd("whole", ("1.0", "2", "null"), "whole", "double", [1.0, 2.0, None], [{"double": 1.0}, {"long": 2}, None]),
    Odd(
        "number_first",
        ("1", '"12"', "true"),
        "number_first",
        "bigint",
        [1, None, None],
        [{"long": 1}, {"string": "12"}, {"boolean": True}],
    ),
    Odd(
        "text_first",
        ('"12"', "12", '{"a": 1}'),
        "text_first",
        "string",
        ["12", None, None],
        [{"string": "12"}, {"long": 12}, {"object": {"a": {"long": 1}}}],
    ),
    Odd(
        "mixed_array",
        ('[1, "a", null, 2.5]', '["b"]', "5"),
        "mixed_array",
        "array<double>",
        [[1.0, None, None, 2.5], [None], None],
        [
            {"array": [{"long": 1}, {"string": "a"}, None, {"double": 2.5}]},
            {"array": [{"string": "b"}]},
            {"long": 5},
        ],
    ),
    Odd(
        "arrays_in_arrays",
        ('[[1], ["x"]]', "[]", "null"),
        "arrays_in_arrays",
        "array<array<bigint>>",
        [[[1], [None]], [], None],
        [{"array": [{"array": [{"long": 1}]}, {"array": [{"string": "x"}]}]}, {"array": []}, None],
    ),
    Odd(
        "objects_in_arrays",
        ('[{"a": 1}, {"a": "x", "b c": true}]', "[{}]", '["t"]'),
        "objects_in_arrays",
        "array<struct<b%20c:boolean,a:bigint>>",
        [[{"a": 1, "b%20c": None}, {"a": None, "b%20c": True}], [{"a": None, "b%20c": None}], [None]],
        [
            {
                "array": [
                    {"object": {"a": {"long": 1}, "b%20c": None}},
                    {"object": {"a": {"string": "x"}, "b%20c": {"boolean": True}}},
                ]
            },
            {"array": [{"object": {"a": None, "b%20c": None}}]},
            {"array": [{"string": "t"}]},
        ],
    ),
    Odd("empty", ("{}", "[]", "null"), "", "", [], []),
    Odd(
        "empty_first",
        ("{}", '{"a": 1}', "null"),
        "empty_first",
        "struct<a:bigint>",
        [{"a": None}, {"a": 1}, None],
        [{"object": {"a": None}}, {"object": {"a": {"long": 1}}}, None],
    ),
    Odd(
        "beyond_64_bits",
        (str(LARGE), "1", '"1"'),
        "beyond_64_bits",
        "decimal(38,0)",
        [Decimal(LARGE), Decimal(1), None],
        [{"decimal": Decimal(LARGE)}, {"long": 1}, {"string": "1"}],
    ),
    Odd(
        "beyond_everything",
        ("1e400", "1" + "0" * 49, "-1e400"),
        "beyond_everything",
        "double",
        [float("inf"), 1e49, float("-inf")],
        [{"double": float("inf")}, {"double": 1e49}, {"double": float("-inf")}],
    ),
    Odd("minus_zero", ("-0", "0", "7"), "minus_zero", "bigint", [0, 0, 7], [{"long": 0}, {"long": 0}, {"long": 7}]),
    Odd(
        "not_a_number",
        ("1.5", '"NaN"', '"1.5"'),
        "not_a_number",
        "double",
        [1.5, None, None],
        [{"double": 1.5}, {"string": "NaN"}, {"string": "1.5"}],
    ),
    Odd(
        "truth",
        ("true", '"true"', "0"),
        "truth",
        "boolean",
        [True, None, None],
        [{"boolean": True}, {"string": "true"}, {"long": 0}],
    ),
    Odd(
        "blåbær",
        ('"☃ 𝄞"', '"\\u00e9\\n"', '""'),
        "blåbær",
        "string",
        ["☃ 𝄞", "é\n", ""],
        [{"string": "☃ 𝄞"}, {"string": "é\n"}, {"string": ""}],
    ),
    Odd(
        "deep",
        ('{"a": {"b": [{"c": {"d": 1}}]}}', '{"a": {"b": [{"c": 5}]}}', '{"a": "x"}'),
        "deep",
        "struct<a:struct<b:array<struct<c:struct<d:bigint>>>>>",
        [{"a": {"b": [{"c": {"d": 1}}]}}, {"a": {"b": [{"c": None}]}}, {"a": None}],
        [
            {"object": {"a": {"object": {"b": {"array": [{"object": {"c": {"object": {"d": {"long": 1}}}}}]}}}}},
            {"object": {"a": {"object": {"b": {"array": [{"object": {"c": {"long": 5}}}]}}}}},
            {"object": {"a": {"string": "x"}}},
        ],
    ),
    Odd("Case", ("1", "2", "3"), "Case", "bigint", [1, 2, 3], [{"long": 1}, {"long": 2}, {"long": 3}]),
    Odd("case", ('"a"', '"b"', "null"), "%63ase", "string", ["a", "b", None], [{"string": "a"}, {"string": "b"}, None]),
    Odd("", ("1", "null", "null"), "%", "bigint", [1, None, None], [{"long": 1}, None, None]),
    Odd("a.b `c';", ("1", "2", "null"), "a%2Eb%20%60c'%3B", "bigint", [1, 2, None], [{"long": 1}, {"long": 2}, None]),
]


@pytest.fixture(scope="module")
def odd(spark: SparkSession) -> DataFrame:
    texts = ["{" + ", ".join(f"{json.dumps(one.name)}: {one.given[row]}" for one in ODD) + "}" for row in range(3)]
    return _messages(spark, texts)


@pytest.mark.parametrize("fidelity", [WELL_DEFINED, FULL_FIDELITY])
def test_odd_documents_become_columns(odd: DataFrame, tables: str, fidelity: Fidelity) -> None:
    found = survey(odd)
    schema = infer(found, None, fidelity)
    place = f"{tables}/messages"
    with_document(odd, schema, fidelity, found).write.format("delta").save(place)
    stored = odd.sparkSession.read.format("delta").load(place)
    assert infer(found, stored.schema["document"].dataType, fidelity) == schema  # type: ignore[arg-type]  # a struct
    if fidelity is WELL_DEFINED:
        assert {field.name: field.dataType.simpleString() for field in schema} == {
            one.column: one.type for one in ODD if one.type
        }
    rows = _documents(stored)
    expected = {
        one.column: one.well_defined if fidelity is WELL_DEFINED else one.full_fidelity for one in ODD if one.type
    }
    assert {name: [_without_nulls(row[name], fidelity) for row in rows] for name in rows[0]} == expected


def test_each_value_without_a_place_is_kept_aside(odd: DataFrame) -> None:
    found = survey(odd)
    aside = mismatches(found, infer(found, None, WELL_DEFINED), WELL_DEFINED)
    assert aside.schema.simpleString() == MISMATCHES.simpleString()
    kept = {(row["sequence_number"], row["path"]): tuple(row)[3:] for row in aside.collect()}
    assert kept == {
        (1, "$.number_first"): ("long", "string", '"12"'),
        (2, "$.number_first"): ("long", "boolean", "true"),
        (1, "$.text_first"): ("string", "long", "12"),
        (2, "$.text_first"): ("string", "object", '{"a":1}'),
        (0, "$.mixed_array"): ("array<double>", "array<double|long|string>", '[1,"a",null,2.5]'),
        (1, "$.mixed_array"): ("array<double>", "array<string>", '["b"]'),
        (2, "$.mixed_array"): ("array<double>", "long", "5"),
        (0, "$.arrays_in_arrays"): ("array<array<long>>", "array<array<long|string>>", '[[1],["x"]]'),
        (0, "$.objects_in_arrays"): ("array<object>", "array<object>", '[{"a":1},{"a":"x","b c":true}]'),
        (2, "$.objects_in_arrays"): ("array<object>", "array<string>", '["t"]'),
        (2, "$.beyond_64_bits"): ("decimal", "string", '"1"'),
        (1, "$.not_a_number"): ("double", "string", '"NaN"'),
        (2, "$.not_a_number"): ("double", "string", '"1.5"'),
        (1, "$.truth"): ("boolean", "string", '"true"'),
        (2, "$.truth"): ("boolean", "long", "0"),
        (1, "$.deep.a.b"): ("array<object>", "array<object>", '[{"c":5}]'),
        (2, "$.deep.a"): ("object", "string", '"x"'),
    }


def test_with_full_fidelity_nothing_is_kept_aside(odd: DataFrame) -> None:
    found = survey(odd)
    assert found.conforms(infer(found, None, FULL_FIDELITY), FULL_FIDELITY)


def test_reading_with_a_survey_gives_the_same_as_without(spark: SparkSession) -> None:
    texts = ['{"a": "x", "b": [1, 2], "c": {"d": "y"}}', '{"b": [null], "e": 12345678901234567890}', '"bare"']
    messages = _messages(spark, texts)
    found = survey(messages)
    for fidelity in (WELL_DEFINED, FULL_FIDELITY):
        schema = infer(found, None, fidelity)
        assert found.conforms(schema, fidelity)
        quick = _documents(with_document(messages, schema, fidelity, found))
        assert quick == _documents(with_document(messages, schema, fidelity))
        assert quick[2]["value"] == ("bare" if fidelity is WELL_DEFINED else {"string": "bare"})


def test_plain_names_are_read_as_strictly(spark: SparkSession) -> None:
    """Objects without renamed properties are read another way than those of the odd documents."""
    texts = ['{"a": "x", "b": ["y"], "c": {"d": "z"}, "e": "v"}', '{"a": 5, "b": ["y", 6, {"f": 1}], "c": {"d": [7]}}']
    messages = _messages(spark, texts)
    found = survey(messages)
    schema = infer(found, None, WELL_DEFINED)
    expected = [
        {"a": "x", "b": ["y"], "c": {"d": "z"}, "e": "v"},
        {"a": None, "b": ["y", None, None], "c": {"d": None}, "e": None},
    ]
    assert found.suspects(schema, WELL_DEFINED) == frozenset({("a",), ("b",), ("c", "d")})
    assert _documents(with_document(messages, schema, WELL_DEFINED, found)) == expected
    assert _documents(with_document(messages, schema, WELL_DEFINED)) == expected


def test_only_what_is_json_and_can_be_read_is_a_document(spark: SparkSession) -> None:
    texts = ['{"a": 1}', "{bad", '{"a": 1, "a": 2}', '{"a": NaN}', "", '1,"b":2', "null", " 7 ", "[8]"]
    messages = _messages(spark, texts).union(_messages(spark, ['{"b": 1}'], media_type="text/plain", first=9))
    found = survey(messages)
    assert found.unreadable == 5
    schema = infer(found, None, WELL_DEFINED)
    assert schema.simpleString() == "struct<a:bigint,value:bigint>"
    assert _documents(with_document(messages, schema, WELL_DEFINED)) == [
        {"a": 1, "value": None},
        *[None] * 5,
        {"a": None, "value": None},
        {"a": None, "value": 7},
        {"a": None, "value": None},
        None,
    ]
    aside = [tuple(row)[1:] for row in mismatches(found, schema).orderBy("sequence_number").collect()]
    assert aside == [
        *[(number, "$", "json", "unreadable", texts[number]) for number in range(1, 6)],
        (8, "$.value", "long", "array", "[8]"),
    ]
    variants = with_document(messages, StructType([]), Fidelity.VARIANT)
    assert variants.schema["document"].dataType == VariantType()
    shown = [row[0] for row in variants.orderBy("sequence_number").selectExpr("to_json(document)").collect()]
    assert shown == ['{"a":1}', None, None, None, None, None, "null", "7", "[8]", None]


@pytest.mark.parametrize("fidelity", [WELL_DEFINED, FULL_FIDELITY])
def test_a_table_grows_with_late_columns(spark: SparkSession, tables: str, fidelity: Fidelity) -> None:
    place = f"{tables}/messages"
    known: StructType | None = None
    batches = [["null", "{}"], ['{"a": 1, "o": [{"p": 1}]}'], ['{"a": 2.5, "o": [{"p": 2, "q": "late"}], "b": true}']]
    for number, texts in enumerate(batches):
        messages = _messages(spark, texts, first=10 * number)
        found = survey(messages)
        schema = infer(found, known, fidelity)
        written = with_document(messages, schema, fidelity, found)
        written.write.format("delta").mode("append").option("mergeSchema", "true").save(place)
        stored = spark.read.format("delta").load(place)
        known = stored.schema["document"].dataType if number else None  # type: ignore[assignment]  # a struct
        assert ("document" in stored.columns) == bool(number), "a struct without fields cannot be stored"
        assert (known or StructType([])) == schema
    last = _documents(spark.read.format("delta").load(place))
    if fidelity is WELL_DEFINED:
        assert last[2:] == [
            {"a": 1, "o": [{"p": 1, "q": None}], "b": None},
            {"a": None, "o": [{"p": 2, "q": "late"}], "b": True},
        ]
    else:
        assert last[3]["a"] == {"long": None, "double": 2.5}
        assert last[2]["o"] == {"array": [{"object": {"p": {"long": 1}, "q": None}}]}


@pytest.mark.long
def test_shapes_beyond_the_limit_are_kept_aside_whole(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DOCUMENT_SHAPES_MAX", 2)
    messages = _messages(spark, ['{"a": 1}', '{"b": 2}', '{"c": 3}', "{bad", '{"a": 4}'])
    found = survey(messages)
    schema = infer(found, None, WELL_DEFINED)
    assert schema.names == ["a", "b"]
    assert not found.is_complete
    rows = mismatches(found, schema).orderBy("sequence_number").collect()
    assert [(row["sequence_number"], row["value"]) for row in rows] == [(2, '{"c":3}'), (3, "{bad")]


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/vnd.x+json",
        "text/plain",
        "application/jsonl",
        "",
    ],
)
def test_json_is_what_the_hub_calls_json(media_type: str) -> None:
    assert bool(re.match(JSON_PATTERN, media_type)) == media_types.is_json(media_type)


def _messages(
    spark: SparkSession, texts: Sequence[str], *, media_type: str = "application/json", first: int = 0
) -> DataFrame:
    rows = [(0, first + number, bytearray(text.encode()), media_type) for number, text in enumerate(texts)]
    return spark.createDataFrame(rows, FRAME)


def _documents(frame: DataFrame) -> list[Any]:
    rows = frame.orderBy("sequence_number").select("document").collect()
    return [row["document"] and row["document"].asDict(recursive=True) for row in rows]


def _without_nulls(value: Any, fidelity: Fidelity) -> Any:
    """With full fidelity, of each struct of kinds only the one that is there."""
    if fidelity is WELL_DEFINED or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        return [_without_nulls(inner, fidelity) for inner in value]
    kinds = {"boolean", "long", "decimal", "double", "string", "object", "array"}
    return {
        name: _without_nulls(inner, fidelity)
        for name, inner in value.items()
        if inner is not None or not set(value) <= kinds
    }
