"""Health and metrics, described."""

from __future__ import annotations

from restante.server.openapi.parts import Answer, BodyContent, Operation, Subject, of_schema
from restante.server.openapi.schemas import TEXT
from restante.wire import media

_HEALTH = (BodyContent(media_type=media.JSON, schema=of_schema("Health")),)


def _probe(path: str, summary: str, text: str) -> Operation:
    return Operation(
        method="GET",
        path=path,
        name=path.strip("/"),
        summary=summary,
        text=text,
        answers=(
            Answer(status=200, text="All is well.", contents=_HEALTH, headers=("Cache-Control",)),
            Answer(
                status=503,
                text="It is not, and the checks that fail say why.",
                contents=_HEALTH,
                headers=("Cache-Control",),
            ),
        ),
        problems=(),
    )


METRICS = Operation(
    method="GET",
    path="/metrics",
    name="metrics",
    summary="Metrics for Prometheus",
    text="In the text format. Base units, and nothing that grows with recipients or messages.",
    answers=(Answer(status=200, text="The metrics.", contents=(BodyContent(media_type="text/plain", schema=TEXT),)),),
    problems=("unavailable",),
)
SUBJECT = Subject(
    name="Health",
    text="Health and metrics, for operators and orchestrators. Health needs no token.",
    operations=(
        _probe("/livez", "Is the hub alive?", "If it fails, start the hub again."),
        _probe(
            "/readyz",
            "Is the hub ready?",
            "If it fails, send requests elsewhere, or wait: the hub is shutting down, or its disk is full or slow.",
        ),
        _probe("/startupz", "Has the hub started?", "It answers as soon as the data folder is open."),
        _probe("/healthz", "Everything together", "All checks at once."),
        METRICS,
    ),
)
