"""A value by its path, in whatever it lies."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from restante.errors import InvalidRequest
from restante.spark.tables.property_paths import value_at


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    data = b'{"customer": {"region": "north", "odd \'name": 7, "a[0]": 8}, "list": [1, 2]}'
    given = spark.range(1).select(f.lit("alice").alias("recipient"), f.lit(data).alias("data"))
    return given.selectExpr(
        "*",
        """'{"a": {"b": true}}' AS text""",
        "map('region', 'south') AS properties",
        "named_struct('customer', named_struct('region', 'west', 'number', 12L), 'tags', array('x')) AS document",
        """parse_json('{"customer": {"region": "east", "number": 3}}') AS anything""",
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("recipient", "alice"),
        ("properties.region", "south"),
        ("properties.nothing", None),
        ("document.customer.region", "west"),
        ("document.customer.number", 12),
        ("data.customer.region", "north"),
        ("data.customer.odd 'name", "7"),
        ("data.customer.a[0]", "8"),
        ("data.customer.missing.deeper", None),
        ("text.a.b", "true"),
        ("anything.customer.region", "east"),
        ("anything.customer.number", "3"),
        ("anything.customer.missing", None),
    ],
)
def test_a_path_leads_into_columns_maps_structs_variants_and_json(rows: DataFrame, path: str, value: object) -> None:
    found = rows.select(value_at(rows.schema, path).alias("value")).first()
    assert found is not None
    assert found["value"] == value


def test_data_that_is_no_json_has_no_value(spark: SparkSession) -> None:
    rows = spark.range(1).select(f.lit(b"\xff\x00 no JSON").alias("data"))
    found = rows.select(value_at(rows.schema, "data.region").alias("value")).first()
    assert found is not None
    assert found["value"] is None


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "is no path"),
        ("document..region", "is no path"),
        ("region", "There are recipient, data"),
        ("document.region", "there is no 'region'"),
        ("document.customer", "Go on into it"),
        ("document.tags", "single value"),
        ("properties", "single value"),
        ("document.customer.number.deeper", "there is no 'deeper' in a bigint"),
    ],
)
def test_a_path_that_leads_to_no_value_is_refused_with_what_to_do(rows: DataFrame, path: str, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        value_at(rows.schema, path)
