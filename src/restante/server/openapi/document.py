"""The OpenAPI document: every route of the table, with who may use it, put together once."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from importlib.metadata import version

import msgspec

from restante.limits import CORRELATION_ID_CHARACTERS_MAX, HEADER_BYTES_MAX, SEND_BYTES_MAX
from restante.model.access.access import Role
from restante.server.openapi import headers, places, problems, schemas
from restante.server.openapi.examples import Example, examples
from restante.server.openapi.parts import Answer, BodyContent, Operation, Parameter, Subject
from restante.server.openapi.routes import (
    actions,
    backplane,
    batches,
    consignments,
    feed,
    groups,
    health,
    jobs,
    live,
    mailboxes,
    pages,
    partitions,
    producers,
    publishing,
    removal,
    upkeep,
)
from restante.server.route_table import Route
from restante.wire import media

SUBJECTS: tuple[Subject, ...] = (
    publishing.SUBJECT,
    mailboxes.SUBJECT,
    removal.SUBJECT,
    live.SUBJECT,
    batches.SUBJECT,
    producers.SUBJECT,
    producers.SOURCES_SUBJECT,
    backplane.SUBJECT,
    consignments.SUBJECT,
    feed.SUBJECT,
    groups.SUBJECT,
    actions.SUBJECT,
    jobs.SUBJECT,
    partitions.SUBJECT,
    partitions.NODES_SUBJECT,
    upkeep.ACCESS,
    upkeep.SUBJECT,
    health.SUBJECT,
    pages.SUBJECT,
)
_EVERYWHERE = ("invalid_request", "internal")
_WITH_TOKEN = ("unauthenticated", "forbidden")
_TEXT = f"""
A durable mailbox hub: it holds each recipient's messages in order until they collect them.

Times are RFC 3339 in UTC. UUIDs have 36 characters, in any case; the hub answers in lower case. What stands in a path
is percent-encoded. An unknown query parameter, body field or Arrow column is an error that names it.

Lists are read page by page: `next` of one page is the `after` of the next, and null on the last.

A body whose `Content-Type` the route does not take is `415`; without one, a body that is not of messages is taken for
JSON. Bodies may be packed with gzip or zstd, and are at most {SEND_BYTES_MAX:,} bytes unpacked; answers are packed if
`Accept-Encoding` asks for it. Headers are at most {HEADER_BYTES_MAX:,} bytes (`431`). A request that does not come
in time is answered `408`, or cut off.

Every answer has the header `Restante-Correlation-Id`: the caller's own if it sent one of at most
{CORRELATION_ID_CHARACTERS_MAX} visible ASCII characters. Every error is `application/problem+json`. Another address is
`404 not_found`, another method `405 method_not_allowed` with the header `Allow`.

A hub on a loopback address is open unless it has tokens; any other asks for one: send it as
`Authorization: Bearer <token>`, once. An operator may use every route.

A hub that asks for no token answers `403 forbidden` to a `Host` that is not its own (a loopback name or address, or one
of the setting `server.hosts`) and to an `Origin` that is neither its own nor one of `server.origins`, except for its
health. Pages of those origins get CORS answers, from every hub.
"""


def document(routes: Iterable[Route]) -> dict[str, object]:
    """The description of these routes. Every one must be described."""
    described = {(operation.method, operation.path): (subject, operation) for subject, operation in _operations()}
    paths: dict[str, dict[str, object]] = {}
    for route in routes:
        subject, operation = described[route.method, route.path]
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(subject, operation, route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Restante",
            "version": version("restante"),
            "summary": "A durable mailbox hub.",
            "description": _TEXT.strip(),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This hub."}],
        "tags": [{"name": subject.name, "description": subject.text.strip()} for subject in SUBJECTS],
        "paths": paths,
        "components": _components(),
        "x-websockets": {
            "/v1/publish": {"description": publishing.LINK.strip(), "x-roles": _roles({Role.PUBLISHER})},
            live.EVENTS.path: {"description": live.LIVE.strip(), "x-roles": _roles({Role.RECIPIENT})},
        },
    }


def encoded(description: Mapping[str, object]) -> bytes:
    return msgspec.json.encode(description)


def _operations() -> Iterable[tuple[Subject, Operation]]:
    return ((subject, operation) for subject in SUBJECTS for operation in subject.operations)


def _components() -> dict[str, object]:
    return {
        "schemas": {**schemas.components(), **problems.components()},
        "headers": headers.components(),
        "responses": problems.answers(("not_found", "method_not_allowed")),
        "securitySchemes": {
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token made with `restante tokens create`. `x-roles` of a route says which it takes.",
            }
        },
    }


def _roles(roles: Iterable[Role]) -> list[str]:
    return sorted(role.value for role in {*roles, Role.OPERATOR})


def _operation(subject: Subject, operation: Operation, route: Route) -> dict[str, object]:
    open_to_all = route.roles is None
    codes = (*_EVERYWHERE, *(() if open_to_all else _WITH_TOKEN), *operation.problems)
    found: dict[str, object] = {
        "tags": [subject.name],
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.text.strip(),
        "parameters": [_parameter(parameter) for parameter in (*operation.parameters, places.CORRELATION)],
        "responses": _answers(operation, codes),
        "security": [] if open_to_all else [{"bearer": []}],
        "x-examples": [_example(operation, example) for example in examples()[operation.name]],
    }
    if route.roles is not None:
        found["x-roles"] = _roles(route.roles)
    if operation.bodies:
        found["requestBody"] = _body(operation)
    return found


def _parameter(parameter: Parameter) -> dict[str, object]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.required or parameter.where == "path",
        "description": parameter.text,
        "schema": parameter.schema,
        "example": parameter.example,
    }


def _body(operation: Operation) -> dict[str, object]:
    content = {body.media_type: _body_content(operation, body) for body in operation.bodies}
    return {"required": operation.body_required, "content": content}


def _body_content(operation: Operation, body: BodyContent) -> dict[str, object]:
    shown = {
        example.name: {"summary": example.text, "value": example.body}
        for example in examples()[operation.name]
        if _sent_type(example) == body.media_type and example.status < 400 and example.body_base64 is None
    }
    return {"schema": body.schema, **({"examples": shown} if shown else {})}


def _sent_type(example: Example) -> str | None:
    return example.headers.get("Content-Type")


def _answers(operation: Operation, codes: Iterable[str]) -> dict[str, object]:
    found = problems.answers(codes)
    for answer in operation.answers:
        assert str(answer.status) not in found, "a status is either a problem or none"
        found[str(answer.status)] = _answer(operation, answer)
    return dict(sorted(found.items()))


def _answer(operation: Operation, answer: Answer) -> dict[str, object]:
    found: dict[str, object] = {"description": answer.text, "headers": headers.references(answer.headers)}
    if answer.contents:
        found["content"] = {
            content.media_type: _answer_content(operation, answer, content) for content in answer.contents
        }
    return found


def _answer_content(operation: Operation, answer: Answer, content: BodyContent) -> dict[str, object]:
    shown = {
        example.name: {"summary": example.text, "value": example.answer}
        for example in examples()[operation.name]
        if example.status == answer.status and example.answer is not None and _given_type(example) == content.media_type
    }
    return {"schema": content.schema, **({"examples": shown} if shown else {})}


def _given_type(example: Example) -> str:
    return example.headers.get("Accept", media.JSON)


def _example(operation: Operation, example: Example) -> dict[str, object]:
    """A whole request and what its answer must be, for people to copy and for a test to do."""
    request: dict[str, object] = {
        "method": operation.method,
        "target": example.target,
        "headers": example.headers,
    }
    if example.body_base64 is not None:
        request["body_base64"] = base64.b64encode(example.body_base64).decode()
    elif example.body is not None:
        request["body"] = example.body
    answer: dict[str, object] = {"status": example.status, "headers": example.answer_headers}
    if example.code is not None:
        answer["code"] = example.code
    elif example.answer is not None:
        answer["body"] = example.answer
    return {
        "name": example.name,
        "summary": example.text,
        "after": list(example.after),
        "request": request,
        "answer": answer,
    }
