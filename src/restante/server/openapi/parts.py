"""Parts of the description of a route."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from restante.wire import media

Schema = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter in the path, the query or a header. One in a path is required, whatever is said here."""

    name: str
    text: str
    schema: Schema
    example: object
    where: Literal["path", "query", "header"] = "query"
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryText:
    """The meaning of a field of a call in a query. `form` is added to the schema that follows from its type."""

    text: str
    example: object
    form: Schema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyContent:
    """A body of one media type, either way."""

    media_type: str
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that is no problem. A header whose name ends in `?` is not always there."""

    status: int
    text: str
    contents: tuple[BodyContent, ...] = ()
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One route. The roles that may use it are not said here, but taken from the table of routes."""

    method: str
    path: str
    name: str
    summary: str
    text: str
    answers: tuple[Answer, ...]
    problems: tuple[str, ...]
    """The codes that it may answer, besides those of every route."""
    parameters: tuple[Parameter, ...] = ()
    bodies: tuple[BodyContent, ...] = ()
    body_required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Routes that belong together."""

    name: str
    text: str
    operations: tuple[Operation, ...]


def of_schema(name: str) -> Schema:
    """A reference to one of the named schemas."""
    return {"$ref": f"#/components/schemas/{name}"}


def json_body(schema: str) -> BodyContent:
    """A body of JSON, of one of the named schemas."""
    return BodyContent(media_type=media.JSON, schema=of_schema(schema))


def json_answer(status: int, text: str, schema: str, *headers: str) -> Answer:
    return Answer(status=status, text=text, contents=(json_body(schema),), headers=headers)
