"""The pages that describe the hub, described."""

from __future__ import annotations

from restante.server.openapi.parts import Answer, BodyContent, Operation, Subject
from restante.server.openapi.schemas import TEXT
from restante.wire import media

_SAFE = ("Content-Security-Policy",)


def _page(path: str, name: str, summary: str, text: str) -> Operation:
    return Operation(
        method="GET",
        path=path,
        name=name,
        summary=summary,
        text=text,
        answers=(
            Answer(
                status=200,
                text="The page.",
                contents=(BodyContent(media_type="text/html", schema=TEXT),),
                headers=_SAFE,
            ),
        ),
        problems=(),
    )


def _document(name: str, summary: str, text: str) -> Operation:
    return Operation(
        method="GET",
        path=f"/{name}.json",
        name=name,
        summary=summary,
        text=text,
        answers=(
            Answer(
                status=200,
                text="The document.",
                contents=(BodyContent(media_type=media.JSON, schema={"type": "object"}),),
                headers=_SAFE,
            ),
        ),
        problems=(),
    )


HOME = Operation(
    method="GET",
    path="/",
    name="home",
    summary="To the pages",
    text="The page that a browser gets at the hub's address.",
    answers=(Answer(status=307, text="On to `/docs`.", contents=(), headers=("Location",)),),
    problems=(),
)
SUBJECT = Subject(
    name="Pages",
    text="The API description of this hub. It needs no token.",
    operations=(
        HOME,
        _document("openapi", "This description", "OpenAPI 3.1, for programs."),
        _document("asyncapi", "What goes over web sockets", "AsyncAPI 3.0, for programs."),
        _page(
            "/docs",
            "docs",
            "Every route, to read",
            "Made from `/openapi.json`, with a search, and examples to try. It loads nothing from elsewhere.",
        ),
        _page("/docs/problems", "problems", "Every problem code, to read", "What each means and what to do about it."),
    ),
)
