"""Requests of every route and body type, and what may be spoilt about them. All of it follows from a number."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import msgspec
import pyarrow as pa
from pyarrow import ipc

from restante.server.app import ROUTES
from restante.server.route_table import Route
from restante.wire import media

RECIPIENTS = ("ada", "ben", "näme with/slash", "x" * 256)
IDS = tuple(f"0190b4d2-7b3e-7c10-8a55-3f2d5e6c7b{number:02x}" for number in range(40))
BATCHES = IDS[:4]
METHODS = (
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PROPFIND",
    "BREW",
    "get",
    "",
)
_RARE = ("/v1/backup", "/openapi.json", "/docs", "/docs/problems", "/metrics")
"""Large answers that take no input."""
_LONG_WAIT = re.compile(rb"(?:wait|seconds)=(?!0\.0)[^& ]")

Random = random.Random


class Ending(Enum):
    """What the client does after it has sent everything."""

    WAITS = "waits for an answer"
    HALF_CLOSES = "sends no more, and waits for an answer"
    LEAVES = "goes away"


@dataclass(frozen=True)
class Draft:
    """A request before it is written down."""

    method: bytes
    path: bytes
    query: tuple[tuple[bytes, bytes], ...] = ()
    headers: tuple[tuple[bytes, bytes], ...] = ((b"host", b"localhost"),)
    body: bytes | None = None
    length: bytes | None = None
    """What the Content-Length says, if it is not the truth."""
    chunks: tuple[bytes, ...] | None = None
    """The body as it is written, if it is sent in chunks."""

    def written(self) -> bytes:
        target = self.path + (b"?" + b"&".join(b"=".join(pair) for pair in self.query) if self.query else b"")
        headers = [*self.headers]
        if self.chunks is not None:
            headers.append((b"transfer-encoding", b"chunked"))
        elif self.body is not None:
            headers.append((b"content-length", self.length or b"%d" % len(self.body)))
        head = b"".join(b"%s: %s\r\n" % pair for pair in headers)
        body = b"".join(self.chunks) if self.chunks is not None else self.body or b""
        return b"%s %s HTTP/1.1\r\n%s\r\n%s" % (self.method, target, head, body)


@dataclass(frozen=True)
class Case:
    """What is sent, and how it ends."""

    number: int
    spoilt: str
    sent: bytes = field(repr=False)
    ending: Ending
    one: bool
    """It is one request, so there is one answer, and the connection can be used again."""

    @property
    def heads_only(self) -> bool:
        return self.sent.startswith(b"HEAD ")


def case(number: int) -> Case:
    generator = random.Random(number)
    draft = valid_request(generator)
    name, spoil = generator.choice(SPOILS)
    spoilt = spoil(generator, draft)
    sent = spoilt if isinstance(spoilt, bytes) else spoilt.written()
    ending = _ending(generator, name, sent)
    one = ending is Ending.WAITS and name not in MAY_BE_INCOMPLETE | MAY_BE_MANY
    return Case(number, f"{name} of {draft.method!r} {draft.path!r}", sent, ending, one)


def _ending(generator: Random, name: str, sent: bytes) -> Ending:
    if _LONG_WAIT.search(sent):
        return Ending.LEAVES  # it may wait, as it asked to
    if name in MAY_BE_INCOMPLETE and generator.random() < 0.95:
        return generator.choice([Ending.HALF_CLOSES, Ending.HALF_CLOSES, Ending.LEAVES])
    return Ending.WAITS if generator.random() < 0.95 else Ending.LEAVES


# Requests as they should be


def valid_request(generator: Random) -> Draft:
    route = generator.choice(ROUTES)
    if route.path in _RARE and generator.random() < 0.9:
        route = ROUTES[0]
    path = re.sub(r"\{(\w+)\}", lambda found: _place(generator, found[1]), route.path)
    draft = Draft(route.method.encode(), path.encode(), query=tuple(_query(generator, route)))
    if route.path.endswith(("/messages", "/parcels")) and route.method == "POST":
        content_type, body, more = generator.choice(BODIES)(generator)
        if route.path.endswith("/parcels") and generator.random() < 0.5:
            more = (*more, *_numbers(generator))
        if generator.random() < 0.2:
            more = (*more, (b"restante-batch", generator.choice(BATCHES).encode()))
        draft = replace(draft, body=body, headers=(*draft.headers, (b"content-type", content_type), *more))
        return packed(generator, draft) if generator.random() < 0.3 else draft
    if route.method == "POST" and route.path.startswith(("/v1/batches", "/v1/acknowledgements")):
        return replace(draft, body=msgspec.json.encode(_batch_body(generator, route)))
    if route.path.endswith("/purge"):
        wish: dict[str, object] = {"origin": "default", "dry_run": True, "before": "2030-01-01T00:00:00Z"}
        return replace(draft, body=msgspec.json.encode(wish))
    if route.path.endswith("/links"):
        asked = {"producer_group": generator.randrange(3), "owner_level": generator.randrange(3)}
        return replace(draft, body=msgspec.json.encode(asked))
    accept = generator.choice(["*/*", media.JSON, media.ARROW, media.CLOUDEVENTS_BATCH + ";q=0.9, */*;q=0.1"])
    encoding = generator.choice(["gzip", "zstd", "identity"])
    more = ((b"accept", accept.encode()), (b"accept-encoding", encoding.encode()))
    return replace(draft, headers=(*draft.headers, *more))


def _place(generator: Random, name: str) -> str:
    if name == "partition":
        return str(generator.randrange(4))
    if name == "recipient":
        return generator.choice(["ada", "ben", "n%C3%A4me%20with%2Fslash", "x" * 256])
    if name == "group":
        return str(generator.randrange(3))
    return generator.choice(BATCHES if name == "batch" else IDS)


def _batch_body(generator: Random, route: Route) -> dict[str, object]:
    batch = generator.choice(BATCHES)
    if route.path.endswith("/acknowledgements"):
        items = [f"{batch}:{generator.randrange(3)}:{generator.randrange(40)}" for _ in range(generator.randrange(50))]
        return {"items": items, "ranges": [{"group": f"{batch}:0", "from": 1, "upto": generator.randrange(2, 40)}]}
    if route.path.endswith("/items"):
        return {"count": generator.choice([1, 30, 10**9]), "request_id": generator.choice(IDS)}
    if route.path.endswith("/reap"):
        return {"dry_run": True}
    if route.path.endswith("/seal"):
        return {}
    return {"id": batch, "key": "night", "unique": generator.random() < 0.2, "notify": "ada"}


def _numbers(generator: Random) -> Headers:
    """Of a producer, such that some are the next ones."""
    return (
        (b"restante-producer-group", b"%d" % generator.choice([0, 1, 2, 2**63 - 1])),
        (b"restante-owner-level", b"%d" % generator.randrange(3)),
        (b"restante-published-sequence", b"%d" % generator.choice([0, 0, 1, 5, 2**31 - 1])),
    )


def _query(generator: Random, route: Route) -> list[tuple[bytes, bytes]]:
    values = {
        "wait": b"0.01",
        "seconds": b"0.01",
        "waiting": generator.choice([b"true", b"false"]),
        "origin": b"default",
        "origin_group": b"default",
        "bundle_id": generator.choice(IDS).encode(),
        "order": generator.choice([b"waiting", b"oldest"]),
        "state": b"waiting",
        "dry_run": generator.choice([b"true", b"false"]),
        "format": b"json",
    }
    chosen = [name for name in sorted(route.query) if generator.random() < 0.3]
    return [(name.encode(), values.get(name, b"%d" % generator.randrange(50))) for name in chosen]


Headers = tuple[tuple[bytes, bytes], ...]
Body = tuple[bytes, bytes, Headers]


def _values(generator: Random, count: int) -> list[dict[str, object]]:
    return [
        {
            "recipient": generator.choice(RECIPIENTS),
            "id": generator.choice(IDS),
            "data": generator.choice([1, None, "text", {"a": [1.5, True]}, "x" * generator.choice([10, 40_000])]),
            "properties": {"a": "b"},
            "weight": 40,
            "expires_at": "2090-01-01T00:00:00Z",
        }
        for _ in range(count)
    ]


def _json_body(generator: Random) -> Body:
    return b"application/json", msgspec.json.encode({"messages": _values(generator, generator.choice([0, 1, 5]))}), ()


def _event(generator: Random) -> dict[str, object]:
    return {
        "specversion": "1.0",
        "id": generator.choice(IDS),
        "source": "default",
        "type": "default",
        "recipient": generator.choice(RECIPIENTS),
        "datacontenttype": "application/json",
        "data": {"value": generator.randrange(10)},
    }


def _structured_event(generator: Random) -> Body:
    return b"application/cloudevents+json", msgspec.json.encode(_event(generator)), ()


def _event_batch(generator: Random) -> Body:
    events = [_event(generator) for _ in range(generator.choice([0, 1, 5]))]
    return b"application/cloudevents-batch+json", msgspec.json.encode(events), ()


def _binary_event(generator: Random) -> Body:
    names = ("specversion", "id", "source", "type")
    event = _event(generator) | {"recipient": "ada"}
    headers = tuple((b"ce-" + name.encode(), str(event[name]).encode()) for name in (*names, "recipient"))
    return b"application/json", msgspec.json.encode(event["data"]), headers


def arrow_stream(generator: Random) -> bytes:
    count = generator.choice([1, 20, 2_000])
    table = pa.table(
        {
            "recipient": [generator.choice(RECIPIENTS) for _ in range(count)],
            "data": pa.array([b"x" * generator.randrange(30) for _ in range(count)], pa.binary()),
            "kind": pa.array([generator.choice(["k", None]) for _ in range(count)], pa.string()).dictionary_encode(),
            "properties": pa.array([[("a", "b")]] * count, pa.map_(pa.string(), pa.string())),
        }
    )
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _arrow_body(generator: Random) -> Body:
    return media.ARROW.encode(), arrow_stream(generator), ()


BODIES: Sequence[Callable[[Random], Body]] = (
    _json_body,
    _structured_event,
    _event_batch,
    _binary_event,
    _arrow_body,
)


def packed(generator: Random, draft: Draft) -> Draft:
    body = draft.body or b""
    name = generator.choice([b"gzip", b"zstd"])
    packed = gzip.compress(body, 1) if name == b"gzip" else pa.compress(body, codec="zstd", asbytes=True)
    return replace(draft, body=packed, headers=(*draft.headers, (b"content-encoding", name)))


# What may be spoilt


def noise(generator: Random, most: int = 20) -> bytes:
    return generator.randbytes(generator.randrange(1, most))


def spoilt_bytes(generator: Random, content: bytes) -> bytes:
    """A few bytes flipped, cut, doubled, put in, or taken from elsewhere."""
    spoilt = bytearray(content or b"\0")
    for _ in range(generator.choice([1, 1, 3, 10])):
        at, to = sorted(generator.randrange(len(spoilt) + 1) for _ in range(2))
        what = generator.randrange(6)
        if what <= 1 and at < len(spoilt):
            spoilt[at] ^= 1 << generator.randrange(8)
        elif what == 2:
            del spoilt[at : at + generator.choice([1, 8, to - at])]
        elif what == 3:
            spoilt[at:at] = spoilt[at : min(to, at + 5_000)]
        elif what == 4:
            spoilt[at:at] = noise(generator)
        else:
            spoilt[at : at + 4] = generator.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f", b'"{[\\'])
    return bytes(spoilt)


def _body(generator: Random, draft: Draft) -> Draft:
    return replace(draft, body=spoilt_bytes(generator, draft.body or b""))


def _cut_body(generator: Random, draft: Draft) -> Draft:
    body = draft.body or b"{}"
    return replace(draft, body=body[: generator.randrange(len(body))] if body else body)


def _strange_body(generator: Random, draft: Draft) -> Draft:
    deep = b"[" * 100_000
    return replace(draft, body=generator.choice([deep, b'{"messages":' + deep, noise(generator, 5_000), b"", b"null"]))


def _other_body(generator: Random, draft: Draft) -> Draft:
    return replace(draft, body=generator.choice(BODIES)(generator)[1])


def _wrong_length(generator: Random, draft: Draft) -> Draft:
    body = draft.body or b"{}"
    wrong = [len(body) + 1, max(len(body) - 1, 0), 0, len(body) + 10_000, 2**26, 2**27, 2**64, -1]
    strange = [b"", b"x", b"1,1", b"+1", b"0x10", b"9" * 400]
    return replace(draft, body=body, length=generator.choice([*(b"%d" % each for each in wrong), *strange]))


def _chunked(generator: Random, draft: Draft) -> Draft:
    return replace(draft, chunks=(*_chunks_of(generator, draft.body or b""), b"0\r\n\r\n"))


def _chunks_of(generator: Random, body: bytes) -> list[bytes]:
    size = generator.choice([1 + len(body) // 20, 1_000, 70_000])
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]


def _broken_chunks(generator: Random, draft: Draft) -> Draft:
    chunks = [*_chunks_of(generator, draft.body or b"{}"), b"0\r\n\r\n"]
    at = generator.randrange(len(chunks))
    broken = [b"", b"zz\r\n", b"-1\r\n", b"fffffffffffffffff\r\n", b"\r\n", b"5", spoilt_bytes(generator, chunks[at])]
    chunks[at] = generator.choice(broken)
    draft = replace(draft, chunks=tuple(chunks))
    both = (*draft.headers, (b"content-length", b"5"))
    return replace(draft, headers=both) if generator.random() < 0.2 else draft


STRANGE_HEADERS: Headers = (
    (b"content-type", b"application/json; charset=utf-16"),
    (b"content-type", b"text/plain"),
    (b"content-type", b""),
    (b"content-type", b"application/json;;;=\"'"),
    (b"content-encoding", b"br"),
    (b"content-encoding", b"gzip"),
    (b"content-encoding", b"zstd, gzip"),
    (b"accept", b"image/png"),
    (b"accept", b"*/*;q=nan, ;;q=, a/b;q=1e999"),
    (b"accept-encoding", b"zstd;q=x, gzip;q=2"),
    (b"expect", b"100-continue"),
    (b"upgrade", b"h2c"),
    (b"connection", b"close, upgrade"),
    (b"transfer-encoding", b"gzip"),
    (b"restante-correlation-id", b"x" * 200),
    (b"restante-producer-group", b"g"),
    (b"restante-owner-level", b"32768"),
    (b"restante-published-sequence", b""),
    (b"restante-batch", b"b"),
    (b"ce-specversion", b"0.3"),
    (b"ce-time", b"yesterday"),
    (b"ce-id", b"%ff%00"),
    (b"authorization", b"Bearer \xff"),
    (b"x", b"y" * 30_000),
)


def _headers(generator: Random, draft: Draft) -> Draft:
    headers = [*draft.headers]
    at = generator.randrange(len(headers))
    what = generator.randrange(4)
    if what == 0:
        del headers[at]
    elif what == 1:
        headers[at] = (headers[at][0], spoilt_bytes(generator, headers[at][1]))
    elif what == 2:
        headers.insert(at, (spoilt_bytes(generator, headers[at][0]), noise(generator)))
    else:
        headers.append(generator.choice(STRANGE_HEADERS))
    return replace(draft, headers=tuple(headers))


def _strange_query(generator: Random, draft: Draft) -> Draft:
    strange = [
        b"%ff",
        b"-1",
        b"9" * 30,
        b"1e5",
        b"nan",
        b"",
        b"%00",
        b"a%20b",
        b"\xc3\xa4",
        b"x" * 3_000,
        b"NaN",
        b"1_0",
    ]
    names = [name for name, _ in draft.query] + [b"limit", b"after", b"max_messages", b"state", b"x", b"", b"%ff"]
    added = [(generator.choice(names), generator.choice(strange)) for _ in range(generator.choice([1, 2, 300]))]
    return replace(draft, query=(*draft.query, *added))


def _strange_path(generator: Random, draft: Draft) -> Draft:
    segments = draft.path.split(b"/")
    strange = [
        b"",
        b".",
        b"..",
        b"%",
        b"%2",
        b"%ff",
        b"%00",
        b"%E2%82",
        b"y" * 5_000,
        b"%20",
        b"\xff",
        b"a b",
        b"9" * 40,
    ]
    segments[generator.randrange(len(segments))] = generator.choice([*strange, spoilt_bytes(generator, segments[-1])])
    whole = [b"*", b"//", b"http://elsewhere/v1/messages", b"hub:80", b"/" + b"/a" * 5_000, b"/v1/publish"]
    return replace(draft, path=b"/".join(segments) if generator.random() < 0.8 else generator.choice(whole))


def _method(generator: Random, draft: Draft) -> Draft:
    return replace(draft, method=generator.choice(METHODS).encode())


def _raw(generator: Random, draft: Draft) -> bytes:
    return spoilt_bytes(generator, draft.written())


def _cut(generator: Random, draft: Draft) -> bytes:
    written = draft.written()
    return written[: generator.randrange(1, len(written))]


def _spliced(generator: Random, draft: Draft) -> bytes:
    one, other = draft.written(), valid_request(generator).written()
    return one[: generator.randrange(len(one))] + other[generator.randrange(len(other)) :]


def _twice(generator: Random, draft: Draft) -> bytes:
    return draft.written() * generator.choice([2, 5]) if len(draft.written()) < 50_000 else draft.written()


Spoil = Callable[[Random, Draft], Draft | bytes]
SPOILS: Sequence[tuple[str, Spoil]] = (
    ("nothing", lambda _, draft: draft),
    ("body", _body),
    ("body", _body),
    ("body", _body),
    ("cut body", _cut_body),
    ("strange body", _strange_body),
    ("other body", _other_body),
    ("packed body", lambda generator, draft: _body(generator, packed(generator, draft))),
    ("packed body cut", lambda generator, draft: _cut_body(generator, packed(generator, draft))),
    ("wrong length", _wrong_length),
    ("chunks", _chunked),
    ("broken chunks", _broken_chunks),
    ("headers", _headers),
    ("headers", _headers),
    ("query", _strange_query),
    ("path", _strange_path),
    ("method", _method),
    ("bytes", _raw),
    ("cut", _cut),
    ("splice", _spliced),
    ("twice", _twice),
)
MAY_BE_INCOMPLETE = frozenset({"wrong length", "broken chunks", "bytes", "cut", "splice", "headers"})
MAY_BE_MANY = frozenset({"twice", "path"})
