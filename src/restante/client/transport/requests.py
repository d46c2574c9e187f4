"""The parts that the dialogues over HTTP share: finding a call's dialogue, making requests, and reading plain answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from restante import limits
from restante.calls.call import Answer, Call, options
from restante.client.transport.exchange import Dialogue, HttpRequest, Pairs, Response
from restante.client.transport.http_answers import expect, value_of
from restante.client.transport.options import Terms
from restante.client.transport.retries import answered
from restante.errors import InvalidRequest
from restante.wire.media import ARROW, JSON, LETTERS

Dialogues: TypeAlias = Mapping[type[Call[Any]], Callable[[Terms, Any], Dialogue[Any]]]
"""A table from the type of a call to its dialogue."""


T = TypeVar("T")
FOR_ARROW = (("Accept", ARROW),)
FOR_BUNDLE = (("Accept", f"{LETTERS}, {ARROW}"),)
FOR_JSON = (("Accept", JSON),)
WITH_JSON = (*FOR_JSON, ("Content-Type", JSON))


def dialogue_of(dialogues: Dialogues, terms: Terms, call: Call[Answer]) -> Dialogue[Answer]:
    """The dialogue that carries out this call."""
    return dialogues[type(call)](terms, call)


def done(terms: Terms, request: HttpRequest, status: int) -> Dialogue[Response]:
    """The answer to a request that may be repeated unchanged."""
    answer = yield from answered(terms, lambda _: request)
    return expect(answer.response, terms.address, status)


def read(terms: Terms, path: str, kind: type[T], query: Pairs = ()) -> Dialogue[T]:
    request = HttpRequest("GET", path, terms.timeout, query=query, headers=FOR_JSON)
    return value_of((yield from done(terms, request, 200)), kind, terms.address)


def given(**values: object) -> Pairs:
    """The query parameters whose values are not None."""
    return tuple((name, str(value)) for name, value in values.items() if value is not None)


def said(call: Call[Any], *, without: tuple[str, ...] = ()) -> dict[str, object]:
    """The fields of a call for a JSON body, less those in `without`, which stand elsewhere, and options that are as by default."""
    usual = {option.field: option.default for option in options(type(call))}
    names = zip(call.__struct_encode_fields__, call.__struct_fields__, strict=True)
    given = [(name, field, getattr(call, field)) for name, field in names if field not in without]
    return {name: value for name, field, value in given if field not in usual or value != usual[field]}


def partition_path(partition: object) -> str:
    return f"/v1/partitions/{whole_number('A partition', partition)}"


def whole_number(what: str, number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidRequest(f"{what} is a number, not {number!r}.")
    return number


def long(terms: Terms) -> float:
    """The timeout for work whose duration grows with the amount of data."""
    return max(terms.timeout, limits.CLIENT_WORK_SECONDS)
