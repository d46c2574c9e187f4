"""Examples on the pages: the command to copy, what is answered, and the request for the script that sends it.

The page of routes begins with the first example of each route that sends, collects and confirms a message.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

from restante.server.openapi.html_pages import html

EXAMPLE_ADDRESS = "http://127.0.0.1:8470"
"""The address of the hub in the examples. The server puts the address there at which the page is read."""
Described = dict[str, Any]
"""A part of the document."""
_STEPS = (
    (
        "publish",
        "Send a message",
        "Name the recipient, and give `text`, or any JSON as `data`. The answer comes when the message is on the disk.",
    ),
    (
        "peek",
        "Collect it",
        (
            "A peek answers what waits for the recipient, as a bundle, and the same bundle again until it is dequeued. "
            "`?wait=30` waits for a message if there is none."
        ),
    ),
    (
        "dequeue",
        "Confirm it",
        (
            "Name the bundle by the `bundle_id` that the peek answered. Now its messages are collected, and the next peek "
            "goes on after them."
        ),
    ),
)
"""The first steps, by the names of the operations."""


def done(example: Described) -> str:
    """The command, and what it is answered."""
    return f"{html.code_block(curl(example['request']))}{_outcome(example['answer'])}"


def to_try(request: Described) -> str:
    """The request for the script of the page, which sends it; not one whose body is no text, or whose answer never ends."""
    if "body_base64" in request or request["headers"].get("Accept") == "text/event-stream":
        return ""
    body = json.dumps(request["body"], indent=2, ensure_ascii=False) if "body" in request else None
    named = {name: request[name] for name in ("method", "target", "headers")}
    return f' data-try="{escape(json.dumps(named | {"body": body}, ensure_ascii=False))}"'


def curl(request: Described) -> str:
    """The request as a command to copy."""
    method = "" if request["method"] == "GET" else f"-X {request['method']} "
    parts = [f"curl {method}'{EXAMPLE_ADDRESS}{request['target']}'"]
    parts += [f"-H '{name}: {value}'" for name, value in request["headers"].items()]
    if request["headers"].get("Accept") == "text/event-stream":
        parts.append("--no-buffer")
    if "body" in request:
        text = json.dumps(request["body"], ensure_ascii=False).replace("'", "'\\''")
        parts.append(f"-d '{text}'")
    command = " \\\n  ".join(parts)
    if "body_base64" not in request:
        return command
    return f"echo '{request['body_base64']}' | base64 -d | {command} \\\n  --data-binary @-"


def _outcome(answer: Described) -> str:
    told = f" <code>{answer['code']}</code>" if "code" in answer else ""
    body = html.code_block(json.dumps(answer["body"], indent=2, ensure_ascii=False)) if "body" in answer else ""
    return f'<p class="soft">Answers <b>{answer["status"]}</b>{told}</p>{body}'


def first_steps(description: Described) -> str:
    operations = {one["operationId"]: one for methods in description["paths"].values() for one in methods.values()}
    steps = "".join(_step(operations[name], title, text) for name, title, text in _STEPS)
    return f'<section class="start"><h2 id="start">Send and collect</h2>{steps}</section>'


def _step(operation: Described, title: str, text: str) -> str:
    example = operation["x-examples"][0]
    link = f'<a href="#{operation["operationId"]}">All of this route</a>'
    return (
        f'<div class="step"{to_try(example["request"])}><h3>{title}</h3><p>{html.inline(text)} {link}.</p>'
        f"{done(example)}</div>"
    )
