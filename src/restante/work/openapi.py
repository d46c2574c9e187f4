"""The actions of an app as an OpenAPI document: for each the route that takes it, with the type of its data and result."""

from __future__ import annotations

import inspect
import types
import typing
from typing import Any
from urllib.parse import quote

import msgspec

from restante.version import __version__
from restante.work.app import App
from restante.work.bodies import BodyType
from restante.work.handlers import ActionHandler
from restante.work.signals import LocatedResult

_REF = "#/components/schemas/{name}"
_STATES = ["accepted", "under_way", "done", "poisoned", "expired", "failed"]
_PROBLEM = {"$ref": "#/components/schemas/Problem"}


def openapi_document(app: App) -> dict[str, Any]:
    """OpenAPI 3.1, of the actions that the app declares."""
    schemas: dict[str, Any] = {"Problem": _problem_schema()}
    paths = {f"/v1/actions/{quote(name, safe='')}": _path(app, name, schemas) for name in sorted(app.handlers)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"Actions of {app.name}",
            "version": __version__,
            "description": f"What the workers of the group `{app.name}` do. Each action is accepted at once and answered later.",
        },
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def _path(app: App, name: str, schemas: dict[str, Any]) -> dict[str, Any]:
    handler = app.handlers[name]
    told = inspect.cleandoc(handler.__doc__) if handler.__doc__ else ""
    status = _status_schema(handler, schemas)
    operation = {
        "operationId": name,
        "summary": told.splitlines()[0] if told else f"Have {name} done.",
        "description": told,
        "tags": [app.name],
        "parameters": [_wait_parameter()],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _request_schema(handler, schemas)}},
        },
        "responses": {
            "200": _answer("With `wait`: its outcome, final.", status),
            "202": {**_answer("Accepted. `Location` says where its outcome is found.", status), "headers": _headers()},
            "default": {"description": "A problem.", "content": {"application/problem+json": {"schema": _PROBLEM}}},
        },
    }
    return {"post": {key: value for key, value in operation.items() if value != ""}}


def _answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _headers() -> dict[str, Any]:
    return {
        "Location": {"description": "Where the outcome is found.", "schema": {"type": "string"}},
        "Retry-After": {"description": "Seconds until a look is worth it.", "schema": {"type": "integer"}},
    }


def _wait_parameter() -> dict[str, Any]:
    return {
        "name": "wait",
        "in": "query",
        "description": "Seconds to wait for the outcome.",
        "schema": {"type": "number", "minimum": 0, "default": 0},
    }


def _request_schema(handler: ActionHandler[Any, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    data = {"type": "object"} if handler.body is None else _schema_of(handler.body, schemas)
    required = ["concerns"] if handler.body is None else ["concerns", "data"]
    return {
        "type": "object",
        "required": required,
        "additionalProperties": False,
        "properties": {
            "concerns": {"type": "string", "description": "The thing: what concerns one thing is done in order."},
            "data": data,
            "id": {"type": "string", "description": "The same id again is the same action."},
            "expires_in": {"type": "number", "exclusiveMinimum": 0, "description": "Seconds in which it is to begin."},
            "origin": {"type": "string", "description": "The business area that asks for it."},
        },
    }


def _status_schema(handler: ActionHandler[Any, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "id": {"type": "string"},
        "action": {"const": handler.name},
        "concerns": {"type": "string"},
        "state": {"enum": _STATES},
        "attempts": {"type": "integer"},
        "deaths": {"type": "integer"},
        "location": {"type": "string"},
        "problem": _PROBLEM,
    }
    result = _result_of(handler)
    if result is not None:
        properties["result"] = _schema_of(result, schemas)
    return {"type": "object", "required": ["id", "action", "concerns", "state"], "properties": properties}


def _result_of(handler: ActionHandler[Any, Any]) -> BodyType | None:
    """The type that the handler returns, if it says so and that is a result."""
    returned = typing.get_type_hints(handler.function).get("return", None)
    if returned in (None, types.NoneType, LocatedResult, Any):
        return None
    try:
        return BodyType(returned)
    except TypeError:
        return None


def _schema_of(body: BodyType, schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type. Types that it refers to are put into `schemas`."""
    model = body.model
    if model is not None:
        own: dict[str, Any] = model.model_json_schema(ref_template=_REF.replace("{name}", "{model}"))
        schemas |= own.pop("$defs", {})
        name = getattr(body.model, "__name__", "Model")
        schemas[name] = own
        reference = {"$ref": _REF.format(name=name)}
        return {"anyOf": [reference, {"type": "null"}]} if body.takes_null else reference
    (schema,), found = msgspec.json.schema_components([body.annotation], ref_template=_REF)
    schemas |= found
    return schema


def _problem_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["code"],
        "properties": {"code": {"type": "string"}, "detail": {"type": "string"}},
    }
