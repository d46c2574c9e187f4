"""Parameters of paths and queries, headers of requests, and the codes that many routes share.

The parameters of queries are made of the calls: names, types, bounds and defaults are those of the fields.
"""

from __future__ import annotations

from enum import Enum
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import msgspec

from restante.calls.call import Call, query_names
from restante.limits import (
    ACTION_CHARACTERS_MAX,
    CORRELATION_ID_CHARACTERS_MAX,
    GROUP_CHARACTERS_MAX,
    PAGE_DEFAULT,
    PAGE_MAX,
    RECIPIENT_CHARACTERS_MAX,
    SOURCE_CHARACTERS_MAX,
    WAIT_SECONDS_MAX,
)
from restante.server.openapi.parts import Parameter, QueryText, Schema
from restante.server.openapi.schemas import ID, TEXT, UUID, url_text

NUMBER_MAX = 2**63 - 1
"""The largest whole number that is read from a query."""


def query(kind: type[Call[Any]], /, **told: QueryText | tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """The parameters in the query of a request for this call, in the order of the fields; `told` by their names there.

    A field that travels in another way has parameters of its own. Fields that `told` lacks are left out if they are required.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    assert query_names(kind) <= told.keys() <= fields.keys(), f"{kind.__name__}: {sorted(told)} are described"
    parameters: list[Parameter] = []
    for name, field in fields.items():
        text = told.get(name, ())
        parameters += (_parameter(field, text),) if isinstance(text, QueryText) else text
    return tuple(parameters)


def _parameter(field: msgspec.structs.FieldInfo, told: QueryText) -> Parameter:
    schema = {**_of_type(field.type), **(told.form or {})}
    if not field.required and field.default not in (None, ()):
        schema["default"] = field.default.value if isinstance(field.default, Enum) else field.default
    return Parameter(
        name=field.encode_name, text=told.text, schema=schema, example=told.example, required=field.required
    )


def _of_type(annotation: Any) -> Schema:  # noqa: ANN401 - what annotations are
    left = [each for each in get_args(annotation) if each is not NoneType]
    if NoneType in get_args(annotation) and len(left) == 1:
        return _of_type(left[0])
    if get_origin(annotation) is Literal:
        return {"type": "string", "enum": left}
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return {"type": "string", "enum": [each.value for each in annotation]}
    schema = msgspec.json.schema(annotation)
    return {**schema, "format": "int64", "maximum": NUMBER_MAX} if schema["type"] == "integer" else schema


MESSAGE_ID = "0198c5a2-0000-7000-8000-000000000001"
BUNDLE_ID = "0198c5a2-0000-7000-8000-00000000b001"
BATCH_ID = "0198c5a2-0000-7000-8000-0000000ba7c1"
CONSIGNMENT_ID = "0198c5a2-0000-7000-8000-0000000c0115"
MEMBER_ID = "0198c5a2-0000-7000-8000-0000003e3be7"

RECIPIENT = Parameter(
    name="recipient",
    where="path",
    text="The recipient, percent-encoded. There is none that is unknown: one without messages is empty.",
    schema=url_text(
        RECIPIENT_CHARACTERS_MAX, "1 to 256 characters, not blank, not `.` or `..`, no control characters."
    ),
    example="alice",
)
MESSAGE = Parameter(
    name="id",
    where="path",
    text="The id of a message, percent-encoded: as its sender gave it, or the UUID that it is stored under.",
    schema=ID,
    example=MESSAGE_ID,
)
SOURCE = Parameter(
    name="origin",
    text="The `source` of a CloudEvent: then the id is that of the event.",
    schema=TEXT,
    example="billing",
)
BUNDLE = Parameter(name="bundle_id", where="path", text="The id of a bundle.", schema=UUID, example=BUNDLE_ID)
BATCH = Parameter(name="batch", where="path", text="The id of a batch.", schema=UUID, example=BATCH_ID)
CONSIGNMENT = Parameter(
    name="consignment", where="path", text="The id of a consignment.", schema=UUID, example=CONSIGNMENT_ID
)
GROUP = Parameter(
    name="group",
    where="path",
    text="The name of a group, percent-encoded.",
    schema=url_text(GROUP_CHARACTERS_MAX, "1 to 64 characters, not blank, not `.` or `..`, no control characters."),
    example="billing",
)
MEMBER = Parameter(
    name="member", where="path", text="The `member_id` that joining answered.", schema=UUID, example=MEMBER_ID
)
ACTION = Parameter(
    name="action",
    where="path",
    text="The name of an action, percent-encoded.",
    schema=url_text(ACTION_CHARACTERS_MAX, "1 to 128 characters, not blank, not `.` or `..`, no control characters."),
    example="send_invoice",
)
SOURCE_NAME = Parameter(
    name="source",
    where="path",
    text="The name of a source, percent-encoded.",
    schema=url_text(SOURCE_CHARACTERS_MAX, "1 to 256 characters, not blank, not `.` or `..`, no control characters."),
    example="orders/3",
)
PARTITION = Parameter(
    name="partition",
    where="path",
    text="The number of a partition, from 0.",
    schema={"type": "integer", "minimum": 0},
    example=7,
)
CORRELATION = Parameter(
    name="Restante-Correlation-Id",
    where="header",
    text=(
        f"A name for this request in the hub's log and in the answer: 1 to {CORRELATION_ID_CHARACTERS_MAX} visible ASCII "
        "characters. Anything else is replaced by a name that the hub makes."
    ),
    schema=TEXT,
    example="night-run-7",
)


def number(name: str, description: str, *, least: int, example: int) -> Parameter:
    schema = {"type": "integer", "format": "int64", "minimum": least, "maximum": NUMBER_MAX}
    return Parameter(name=name, text=description, schema=schema, example=example)


def texts(name: str, description: str, *, example: str) -> Parameter:
    """A parameter that may be given several times."""
    return Parameter(name=name, text=description, schema={"type": "array", "items": TEXT}, example=[example])


LIMIT = QueryText(text=f"How many entries, {PAGE_DEFAULT} if left out; more than {PAGE_MAX:,} is clipped.", example=50)
_NEXT = "The `next` of the page before."


def after_token(digits_max: int, *, example: str) -> QueryText:
    form = {"pattern": f"^[0-9]{{1,{digits_max}}}$"}
    return QueryText(text=_NEXT, form=form, example=example)


def after_text(example: str) -> QueryText:
    return QueryText(text=_NEXT, example=example)


ORIGIN = QueryText(text="Only these origins. May be given several times.", example=["billing"])
ORIGIN_GROUP = QueryText(text="Only the origins of these groups. May be given several times.", example=["billing"])
STATE = QueryText(text="Only those in this state.", example="open")
KEY = QueryText(text="Only those with this key.", example="night-run-7")
WAIT = QueryText(
    text=f"Seconds to wait until something is there; more than {WAIT_SECONDS_MAX:g} is clipped.", example=20
)

READING = ("overloaded", "unavailable", "not_owner", "data_damaged")
"""The codes of problems that a look into a mailbox may bring."""
WRITING = (*READING, "storage_full", "store_conflict", "outcome_unknown")
"""The codes of problems that a change in a mailbox may bring."""
