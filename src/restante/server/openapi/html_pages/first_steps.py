"""How the page of routes begins: a message is sent, collected and confirmed, by the first example of each route."""

from __future__ import annotations

from restante.server.openapi.html_pages import example_parts, html
from restante.server.openapi.html_pages.example_parts import Described

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


def section(description: Described) -> str:
    operations = {one["operationId"]: one for methods in description["paths"].values() for one in methods.values()}
    steps = "".join(_step(operations[name], title, text) for name, title, text in _STEPS)
    return f'<section class="start"><h2 id="start">Send and collect</h2>{steps}</section>'


def _step(operation: Described, title: str, text: str) -> str:
    example = operation["x-examples"][0]
    link = f'<a href="#{operation["operationId"]}">All of this route</a>'
    return (
        f'<div class="step"{example_parts.to_try(example["request"])}><h3>{title}</h3><p>{html.inline(text)} {link}.</p>'
        f"{example_parts.done(example)}</div>"
    )
