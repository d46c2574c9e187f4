"""The media types of bodies, what a Content-Type says, and the choice of an answer's type by Accept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from restante.errors import NotAcceptable, UnsupportedMediaType
from restante.limits import MEDIA_TYPE_CHARACTERS_MAX
from restante.model.columns import media_types

JSON = media_types.JSON
CLOUDEVENT = "application/cloudevents+json"
CLOUDEVENTS_BATCH = "application/cloudevents-batch+json"
ARROW = "application/vnd.apache.arrow.stream"
LETTERS = "application/vnd.restante.letters"
"""A bundle of few messages as the Python client takes it: MessagePack, see `restante.wire.bundle_letters`."""
PROBLEM = "application/problem+json"
FORM = "application/x-www-form-urlencoded"

BODIES = (JSON, CLOUDEVENT, CLOUDEVENTS_BATCH, ARROW)
"""The media types in which messages may be published."""

_OF_CURL = ". (curl -d says that its body is a form: use curl --json, or add -H 'Content-Type: application/json'.)"
_charset = re.compile(r';\s*charset\s*=\s*"?([^";\s]*)', re.IGNORECASE)
_quality = re.compile(r"(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)")


def essence(content_type: str) -> str:
    """The type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def body_type(content_type: str | None, taken: Sequence[str] = BODIES) -> str:
    """Which of the types that a route takes a Content-Type names. Texts are UTF-8, so another charset is refused."""
    allowed = f"send {'one of ' if len(taken) > 1 else ''}{', '.join(taken)}"
    if content_type is None or not content_type.strip():
        raise UnsupportedMediaType(f"the Content-Type is missing: {allowed}")
    found = essence(content_type)
    if found not in taken:
        hint = _OF_CURL if found == FORM and JSON in taken else ""
        raise UnsupportedMediaType(
            f"a body of type {found[:MEDIA_TYPE_CHARACTERS_MAX]!r} is not understood: {allowed}{hint}"
        )
    charset = _charset.search(content_type)
    if charset is not None and charset[1].lower() not in {"utf-8", "utf8", "us-ascii"}:
        raise UnsupportedMediaType(f"the charset {charset[1]!r} is not understood: send UTF-8")
    return found


def check_json(content_type: str | None) -> None:
    """Refuse a body that is said to be anything but JSON. Without a Content-Type it is taken for JSON."""
    if content_type is not None and content_type.strip():
        body_type(content_type, (JSON,))


def negotiate(accept: str | None, offered: Sequence[str]) -> str:
    """The offered type that the caller likes best, the first of equals; without wishes the first of all."""
    if accept is None or not accept.strip():
        return offered[0]
    ranges = dict(_weighted(accept))
    qualities = [_quality_of(kind, ranges) for kind in offered]
    best = max(qualities)
    if best <= 0:
        raise NotAcceptable(f"no answer of type {accept.strip()!r} can be given: accept one of {', '.join(offered)}")
    return offered[qualities.index(best)]


def names(accept: str | None, kind: str) -> bool:
    """Whether the caller asks for this very type: a range that covers it is not enough."""
    return dict(_weighted(accept or "")).get(kind, 0.0) > 0


def _quality_of(kind: str, ranges: dict[str, float]) -> float:
    """How much a type is wished for: the most specific range that covers it counts."""
    main = kind.partition("/")[0]
    for candidate in (kind, f"{main}/*", "*/*"):
        if candidate in ranges:
            return ranges[candidate]
    return 0.0


def _weighted(header: str) -> Iterator[tuple[str, float]]:
    """The names of an Accept header or one like it, in lower case, each with its quality."""
    for part in header.split(","):
        name, *parameters = part.split(";")
        if name.strip():
            yield name.strip().lower(), _stated_quality(parameters)


def _stated_quality(parameters: Sequence[str]) -> float:
    """The value of `q`; 1 if it is not there, 0 if it makes no sense."""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            return float(value.strip()) if _quality.fullmatch(value.strip()) else 0.0
    return 1.0


def weighted_names(header: str) -> dict[str, float]:
    """The names of a header such as Accept-Encoding, in lower case, with their quality."""
    return dict(_weighted(header))
