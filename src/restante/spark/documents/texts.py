"""The documents of a frame of messages, as JSON text of an object, and as a variant."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f

JSON_PATTERN = r"(?i)^(application/json|[^/;]+/[^;]*\+json) *(;.*)?$"
"""The media types whose data is a document."""
BARE_VALUE = "value"
"""A document that is no object is read as if it were the property of this name in one."""


def is_document() -> Column:
    """Whether a message has a document: data there, and of a JSON media type."""
    is_json = (f.col("media_type") == "application/json") | f.col("media_type").rlike(JSON_PATTERN)
    return f.col("data").isNotNull() & is_json


def document_text() -> Column:
    """The JSON text of an object; a bare value is put into one. Only bare values are checked to be valid.

    A text that is no value by itself (`1,"b":2`) could be valid within the braces, so it stays as it is, and cannot be read.
    """
    text = f.col("data").cast("string")
    wrapped = f.concat(f.lit(f'{{"{BARE_VALUE}":'), text, f.lit("}"))
    is_object = text.startswith("{") | text.rlike(r"^\s*\{")
    return f.when(is_object | parsed(text).isNull(), text).otherwise(wrapped)


def parsed(text: Column) -> Column:
    """The text as a variant; null if it is not valid JSON, or if an object in it has a property twice."""
    return f.try_parse_json(text)


def as_object(value: Column) -> Column:
    """A variant's properties; null if it is no object."""
    return f.try_variant_get(value, "$", "map<string,variant>")


def as_array(value: Column) -> Column:
    """A variant's elements; null if it is no array."""
    return f.try_variant_get(value, "$", "array<variant>")


def at(value: Column, names: Column) -> Column:
    """The value at the end of this way of property names; null if the way ends before."""
    return f.reduce(names, value, lambda inner, name: f.element_at(as_object(inner), name))
