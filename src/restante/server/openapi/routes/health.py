"""Health and metrics, described."""

from __future__ import annotations

from restante.limits import RATE_SAMPLES_MAX, RATE_SECONDS
from restante.server.openapi.parts import Answer, BodyContent, Operation, Parameter, Subject, of_schema
from restante.server.openapi.places import number
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


TREE = Operation(
    method="GET",
    path="/v1/health",
    name="healthTree",
    summary="How each part of the hub is",
    text=(
        "A tree: the system, its flows, their components. A node is as bad as the worst of its parts. Every 10 s the last "
        "minute is judged by the bounds of the settings; this is the last judgement."
    ),
    parameters=(
        Parameter(
            name="history",
            text="Also the last hour, by minutes.",
            schema={"type": "boolean", "default": False},
            example=True,
        ),
    ),
    answers=(
        Answer(
            status=200,
            text="The tree.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("HealthAnswer")),),
            headers=("Cache-Control",),
        ),
    ),
    problems=("invalid_request", "unavailable"),
)
RATES = Operation(
    method="GET",
    path="/v1/rates",
    name="rates",
    summary="What went through the hub within the last hour",
    text=(
        f"A sample every {RATE_SECONDS:g} s, at most {RATE_SAMPLES_MAX} of them, as columns of equal length. Who asks again "
        "with `after` gets what is new."
    ),
    parameters=(number("after", "The `next` of the answer before.", least=0, example=360),),
    answers=(
        Answer(
            status=200,
            text="The samples.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("RateHistory")),),
            headers=("Cache-Control",),
        ),
    ),
    problems=("unavailable",),
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
        _probe(
            "/healthz",
            "May this node be sent requests?",
            "What this node needs to serve, for load balancers. What costs something is looked at every 10 s, and answered "
            "from there; before the first time it fails.",
        ),
        TREE,
        RATES,
        METRICS,
    ),
)
