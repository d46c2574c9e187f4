"""The headers of answers, described once."""

from __future__ import annotations

from restante.limits import CORRELATION_ID_CHARACTERS_MAX
from restante.model.mailboxes.answers import Reason
from restante.server.openapi.parts import Schema
from restante.server.openapi.schemas import TEXT, UUID

_HEADERS: dict[str, tuple[str, Schema, object]] = {
    "Restante-Correlation-Id": (
        "Names this request in the hub's log; the caller's own, if it sent one.",
        {"type": "string", "pattern": f"^[!-~]{{1,{CORRELATION_ID_CHARACTERS_MAX}}}$"},
        "night-run-7",
    ),
    "Restante-Bundle-Id": ("The bundle's id: dequeue it by this.", UUID, "0198c5a2-0000-7000-8000-00000000b001"),
    "Restante-Origin": ("The origin of the bundle, percent-encoded.", TEXT, "billing"),
    "Restante-Kind": ("The kind of the bundle, percent-encoded.", TEXT, "invoice"),
    "Restante-Document-Types": (
        "The distinct document types, percent-encoded, with commas between. Beyond 1 KiB they are cut, and end by `,...`.",
        TEXT,
        "invoice",
    ),
    "Restante-Message-Count": ("How many messages the bundle has.", {"type": "integer", "minimum": 1}, 2),
    "Restante-Content": (
        "Only on a claim-check bundle: the body is what the origin delivered, in its own media type.",
        {"const": "claim-check"},
        "claim-check",
    ),
    "Restante-Empty-Reason": (
        "Why there is no bundle.",
        {"enum": [reason.value for reason in Reason]},
        Reason.NOTHING_WAITING.value,
    ),
    "Restante-Next.feed": ("The `after` of the next call.", {"type": "integer", "minimum": 0}, 40),
    "Restante-Next.token": ("The `after` of the next page; not there on the last.", TEXT, "40-2"),
    "Restante-Start": (
        "One more than the last number that retention has removed.",
        {"type": "integer", "minimum": 1},
        1,
    ),
    "Restante-End": ("The last number that there is.", {"type": "integer", "minimum": 0}, 40),
    "Restante-Position": ("The `after` from which the feed goes on.", {"type": "integer", "minimum": 0}, 40),
    "Restante-Next": ("The `after` (or `before`) of the next page, if there is one.", {"type": "integer"}, 40),
    "Restante-As-Of": (
        "The moment that the list shows, at most 5 s ago.",
        {"type": "string", "format": "date-time"},
        "2030-01-31T12:00:00Z",
    ),
    "Location": ("Where to go on.", TEXT, "/docs"),
    "Retry-After": ("After so many seconds, try again.", {"type": "integer", "minimum": 1}, 1),
    "Allow": ("The methods that this address has.", TEXT, "GET, POST"),
    "WWW-Authenticate": ("How to say who you are.", TEXT, 'Bearer realm="restante"'),
    "Connection": (
        "The hub closes the connection, so as not to read the rest of the body.",
        {"const": "close"},
        "close",
    ),
    "Cache-Control": ("What is answered changes from call to call.", {"const": "no-store"}, "no-store"),
    "X-Accel-Buffering": ("Asks proxies to pass on each event as it comes.", {"const": "no"}, "no"),
    "Content-Disposition": ("What to call the file.", TEXT, 'attachment; filename="restante-backup.tar"'),
    "Content-Security-Policy.content": (
        "In a browser, the content is no page of the hub.",
        {"const": "sandbox"},
        "sandbox",
    ),
    "Content-Disposition.content": ("In a browser, the content is a file.", {"const": "attachment"}, "attachment"),
    "Content-Security-Policy": ("The page loads nothing and runs nothing.", TEXT, "default-src 'none'"),
    "X-Content-Type-Options": ("It is what its media type says.", {"const": "nosniff"}, "nosniff"),
    "Content-Encoding": ("Set if the body is packed, as `Accept-Encoding` asked.", {"enum": ["gzip", "zstd"]}, "zstd"),
    "Vary": ("Set together with `Content-Encoding`.", TEXT, "accept-encoding"),
}
"""The headers by name. If a header means different things on different routes, a word after a full stop tells them apart."""
PACKED = ("Content-Encoding?", "Vary?")
"""The headers of answers that are packed if the client asks for it."""

_OF_PROBLEMS = {401: ("WWW-Authenticate",), 405: ("Allow",), 413: ("Connection",), 429: ("Retry-After",)}


def components() -> dict[str, object]:
    """Every header, once always there and once (with the name ending in `?`) only sometimes."""
    return {
        name.replace("?", ".optional"): {
            "description": text,
            "required": not name.endswith("?"),
            "schema": schema,
            "example": example,
        }
        for plain, (text, schema, example) in _HEADERS.items()
        for name in (plain, f"{plain}?")
    }


def references(names: tuple[str, ...]) -> dict[str, object]:
    """References to these headers of an answer, and to those that every answer has."""
    every = ("Restante-Correlation-Id", "X-Content-Type-Options", *names)
    return {
        name.removesuffix("?").partition(".")[0]: {"$ref": f"#/components/headers/{name.replace('?', '.optional')}"}
        for name in every
    }


def of_problem(status: int) -> dict[str, object]:
    return references(_OF_PROBLEMS.get(status, ()))
