"""Choices of a person for a bridge out."""

from __future__ import annotations

from enum import Enum


class OutForm(Enum):
    """The form in which records are written."""

    JSON = "json"
    CLOUDEVENTS = "cloudevents"
    """Structured: attributes and data in one JSON value."""
    CLOUDEVENTS_BINARY = "cloudevents-binary"
    """The value is the data, the attributes are headers."""
    AVRO = "avro"


class OutChanges(Enum):
    """Which changes are written."""

    PUBLISHED = "published"
    ALL = "all"


class Misfits(Enum):
    """The choice for changes that cannot be written."""

    STOP = "stop"
    SKIP = "skip"
