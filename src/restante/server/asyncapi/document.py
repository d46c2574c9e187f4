"""The AsyncAPI document: every web socket of the table, with who may open it, put together once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import msgspec

from restante.model.access.access import Role
from restante.server.asyncapi import live, publish
from restante.server.asyncapi.parts import FrameShape, Saying, SocketChannel
from restante.server.openapi import problems, schemas
from restante.server.openapi.parts import Parameter
from restante.server.route_table import Route

CHANNELS = (live.CHANNEL, publish.CHANNEL)
_TEXT = """
What goes over the web sockets of the hub, frame by frame. The other routes are described at `/openapi.json`.

The hub is the one that is described: what it sends is what a client gets. A hub with tokens asks for one when the socket
is opened; a refusal is an HTTP answer with a problem.
"""
_REFERENCE = re.compile(rb'"#/components/schemas/(\w+)"')
_BEARER = [{"$ref": "#/components/securitySchemes/bearer"}]
Described = dict[str, Any]


def document(sockets: Iterable[Route]) -> Described:
    """The description of these web sockets. Every one must be described."""
    described = {channel.path: channel for channel in CHANNELS}
    found = [(described[route.path], route) for route in sockets]
    operations: Described = {}
    for channel, route in found:
        operations |= _operations(channel, route)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Restante",
            "version": version("restante"),
            "description": _TEXT.strip(),
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"hub": _SERVER},
        "channels": {channel.name: _channel(channel, route) for channel, route in found},
        "operations": operations,
        "components": _components([channel for channel, _ in found]),
    }


def encoded(sockets: Iterable[Route]) -> bytes:
    return msgspec.json.encode(document(sockets))


_SERVER: Described = {
    "host": "{host}:{port}",
    "protocol": "ws",
    "description": "A hub. Behind a proxy that speaks TLS it is `wss`.",
    "variables": {"host": {"default": "127.0.0.1"}, "port": {"default": "8470"}},
    "security": _BEARER,
}


def _channel(channel: SocketChannel, route: Route) -> Described:
    found: Described = {
        "address": channel.path,
        "title": channel.title,
        "description": channel.text.strip(),
        "servers": [{"$ref": "#/servers/hub"}],
        "messages": {frame.name: {"$ref": f"#/components/messages/{frame.name}"} for frame in channel.frames},
        "bindings": {"ws": _binding(channel)},
        "x-roles": sorted(role.value for role in {*(route.roles or ()), Role.OPERATOR}),
        "x-close-codes": dict(channel.close_codes),
    }
    places = [one for one in channel.parameters if one.where == "path"]
    if places:
        found["parameters"] = {one.name: {"description": one.text, "examples": [str(one.example)]} for one in places}
    return found


def _binding(channel: SocketChannel) -> Described:
    """How the socket is opened."""
    found: Described = {"method": "GET", "bindingVersion": "0.1.0"}
    query = [one for one in channel.parameters if one.where == "query"]
    if query:
        properties = {one.name: _described(one) for one in query}
        found["query"] = {"type": "object", "properties": properties, "additionalProperties": False}
    return found


def _described(parameter: Parameter) -> Described:
    return {**parameter.schema, "description": parameter.text, "examples": [parameter.example]}


def _operations(channel: SocketChannel, route: Route) -> Described:
    sides = [("send", saying) for saying in channel.said] + [("receive", saying) for saying in channel.heard]
    return {saying.name: _operation(channel, saying, action, route) for action, saying in sides}


def _operation(channel: SocketChannel, saying: Saying, action: str, route: Route) -> Described:
    where = {"$ref": f"#/channels/{channel.name}"}
    found: Described = {
        "action": action,
        "channel": where,
        "summary": saying.text,
        "messages": _named(channel, saying.frames),
    }
    if route.roles is not None:
        found["security"] = _BEARER
    if saying.answers:
        found["reply"] = {"channel": where, "messages": _named(channel, saying.answers)}
    return found


def _named(channel: SocketChannel, names: Iterable[str]) -> list[Described]:
    return [{"$ref": f"#/channels/{channel.name}/messages/{name}"} for name in names]


def _components(channels: Iterable[SocketChannel]) -> Described:
    messages = {frame.name: _message(frame) for channel in channels for frame in channel.frames}
    bearer = {"type": "http", "scheme": "bearer", "description": "A token made with `restante tokens create`."}
    return {"messages": messages, "schemas": _needed(messages), "securitySchemes": {"bearer": bearer}}


def _message(frame: FrameShape) -> Described:
    found: Described = {
        "name": frame.name,
        "title": frame.name,
        "summary": frame.text,
        "contentType": frame.content_type,
        "payload": frame.schema,
    }
    if frame.examples:
        found["examples"] = [
            {"name": f"{frame.name}-{place}", "payload": example} for place, example in enumerate(frame.examples)
        ]
    return found


def _needed(messages: Described) -> Described:
    """The schemas that frames speak of, those of the OpenAPI document, and what these speak of in turn."""
    known: Described = {**schemas.components(), **problems.components()}
    found: Described = {}
    names = _references(messages)
    while names:
        found |= {name: known[name] for name in names}
        names = {other for name in names for other in _references(known[name])} - found.keys()
    return dict(sorted(found.items()))


def _references(part: Described) -> set[str]:
    return {name.decode() for name in _REFERENCE.findall(msgspec.json.encode(part))}
