"""The page of routes, made from the OpenAPI document and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator

from restante.server.openapi.html_pages import example_parts, html
from restante.server.openapi.html_pages.example_parts import Described


def page(description: Described) -> bytes:
    """The whole page."""
    tags = [(tag, list(_of_tag(description, tag["name"]))) for tag in description["tags"]]
    links = "".join(_links(tag["name"], routes) for tag, routes in tags)
    sections = "".join(_section(tag, routes) for tag, routes in tags)
    info = description["info"]
    about, _, rules = info["description"].partition("\n\n")
    schemas = "".join(_schema(name, schema) for name, schema in description["components"]["schemas"].items())
    return html.whole_page(
        f"{info['title']} {info['version']}",
        contents=f'<p><b>{info["title"]}</b> <span class="soft">{info["version"]}</span></p>{_FIRST}{links}{_OTHERS}',
        main=(
            f"<h1>{info['title']}</h1>{html.paragraphs(about)}{example_parts.first_steps(description)}"
            f'<section><h2 id="rules">Rules of every route</h2>{html.paragraphs(rules)}</section>{sections}'
            f'<section><h2 id="schemas">Bodies</h2>{schemas}</section>'
        ),
    )


_FIRST = '<ul><li><a href="#start">Send and collect</a></li><li><a href="#rules">Rules of every route</a></li></ul>'
_OTHERS = (
    '<b>More</b><ul><li><a href="#schemas">Bodies</a></li><li><a href="/docs/problems">Problems</a></li>'
    '<li><a href="/openapi.json">OpenAPI document</a></li>'
    '<li><a href="/asyncapi.json">AsyncAPI document</a></li></ul>'
)


def _of_tag(description: Described, name: str) -> Iterator[tuple[str, str, Described]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            if name in operation["tags"]:
                yield method.upper(), path, operation


def _links(name: str, routes: list[tuple[str, str, Described]]) -> str:
    entries = "".join(
        f'<li><a href="#{operation["operationId"]}"><span class="method {method}">{method}</span>{operation["summary"]}</a></li>'
        for method, _, operation in routes
    )
    return f'<div class="group"><b><a href="#{name.lower()}">{name}</a></b><ul>{entries}</ul></div>'


def _section(tag: Described, routes: list[tuple[str, str, Described]]) -> str:
    articles = "".join(_route(method, path, operation) for method, path, operation in routes)
    head = f'<h2 id="{tag["name"].lower()}">{tag["name"]}</h2>{html.paragraphs(tag["description"])}'
    return f"<section>{head}{articles}</section>"


def _route(method: str, path: str, operation: Described) -> str:
    roles = operation.get("x-roles")
    allowed = f"Roles: {', '.join(roles)}." if roles else "Open to everybody."
    return (
        f'<article id="{operation["operationId"]}">'
        f'<h3><span class="method {method}">{method}</span><code>{path}</code></h3>'
        f'<p class="soft">{operation["summary"]}. {allowed}</p>'
        f"{html.paragraphs(operation['description'])}"
        f"{_parameters(operation['parameters'])}{_bodies(operation.get('requestBody'))}"
        f"{_answers(operation['responses'])}{_examples(operation['x-examples'])}</article>"
    )


def _parameters(parameters: list[Described]) -> str:
    rows = [
        (
            f"<code>{one['name']}</code>",
            one["in"],
            html.inline(_type_of(one["schema"])),
            f"{html.inline(one['description'])} <span class='soft'>Like {html.inline(_example_of(one))}.</span>",
        )
        for one in parameters
    ]
    return f"<h4>Parameters</h4>{html.table(('name', 'in', 'type', 'meaning'), rows)}"


def _example_of(parameter: Described) -> str:
    example = parameter["example"]
    return f"`{example[0] if isinstance(example, list) else json.dumps(example).strip(chr(34))}`"


def _type_of(schema: Described) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"{_type_of(schema['items'])}, several"
    if "anyOf" in schema:
        return " or ".join(_type_of(part) for part in schema["anyOf"])
    kind = schema.get("format") or schema.get("type") or "any"
    bounds = [f"{word} {schema[key]:,}" for key, word in _BOUNDS.items() if key in schema]
    return ", ".join([kind if isinstance(kind, str) else " or ".join(kind), *bounds])


_BOUNDS = {"minimum": "from", "maxLength": "characters at most"}


def _bodies(body: Described | None) -> str:
    if body is None:
        return ""
    rows = [
        (f"<code>{kind}</code>", _linked(content["schema"]), html.inline(content["schema"].get("description", "")))
        for kind, content in body["content"].items()
    ]
    needed = "" if body["required"] else ' <span class="soft">(may be left out)</span>'
    return f"<h4>Body{needed}</h4>{html.table(('media type', 'what', ''), rows)}"


def _linked(schema: Described) -> str:
    name = _type_of(schema)
    return f'<a href="#schema-{name}">{name}</a>' if "$ref" in schema else html.inline(name)


def _answers(answers: Described) -> str:
    rows = [
        (f"<b>{status}</b>", _meaning(answer), _answer_types(answer), _answer_headers(answer))
        for status, answer in answers.items()
    ]
    return f"<h4>Answers</h4>{html.table(('status', 'meaning', 'body', 'headers'), rows)}"


def _codes(answer: Described) -> list[str]:
    problem = answer.get("content", {}).get("application/problem+json")
    return list(problem["examples"]) if problem else []


def _meaning(answer: Described) -> str:
    codes = _codes(answer)
    if not codes:
        return html.inline(answer["description"])
    return "<br>".join(f'<a href="/docs/problems#{code}"><code>{code}</code></a>' for code in codes)


def _answer_types(answer: Described) -> str:
    if _codes(answer):
        return "Problem"
    contents = answer.get("content", {})
    return "<br>".join(f"<code>{kind}</code> {_linked(content['schema'])}" for kind, content in contents.items())


def _answer_headers(answer: Described) -> str:
    """The headers of an answer besides the one that every answer has."""
    return "<br>".join(f"<code>{name}</code>" for name in answer["headers"] if name != "Restante-Correlation-Id")


def _examples(examples: list[Described]) -> str:
    shown = "".join(
        f"<details{' open' if place == 0 else ''}{example_parts.to_try(example['request'])}>"
        f"<summary>{html.inline(example['summary'])}</summary>{example_parts.done(example)}</details>"
        for place, example in enumerate(examples)
    )
    return f"<h4>Examples</h4>{shown}"


def _schema(name: str, schema: Described) -> str:
    text = html.paragraphs(schema.get("description", ""))
    rows = [
        (
            f"<code>{field}</code>",
            _linked(part) if "$ref" in part else html.inline(_type_of(part)),
            "yes" if field in schema.get("required", ()) else "",
            html.inline(part.get("description", "")),
        )
        for field, part in schema.get("properties", {}).items()
    ]
    fields = html.table(("field", "type", "required", "meaning"), rows) if rows else ""
    return f'<article id="schema-{name}"><h3>{name}</h3>{text}{fields}</article>'
