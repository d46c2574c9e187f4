"""Arrow streams of every shape, honest and damaged. All of it follows from a number."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import ipc

Random = random.Random
STREAMS = 500
"""So many honest streams are made; each is damaged in many ways."""
IDS = tuple(bytes([number]) * 16 for number in range(200))
TEXTS = ("a", "bé", "", "x" * 40, "\x00", "default", "application/json")
_LIES = (-1, 0, 1, 2, 7, 2**16, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))


class Part(NamedTuple):
    """One message of a stream, as it lies in it: eight bytes, the metadata, the body."""

    metadata: bytes
    body: bytes

    def written(self) -> bytes:
        return struct.pack("<iI", -1, len(self.metadata)) + self.metadata + self.body


def damaged_stream(number: int) -> bytes:
    generator = random.Random(number)
    parts = list(honest_parts(generator.randrange(STREAMS)))
    for _ in range(generator.choice([0, 1, 1, 1, 2, 5])):
        if parts:
            generator.choice(DAMAGES)(generator, parts)
    stream = b"".join(part.written() for part in parts) + struct.pack("<iI", -1, 0)
    ending = generator.random()
    if ending < 0.05:
        return stream[: generator.randrange(len(stream))]
    return _flipped(generator, stream, 8) if ending < 0.1 else stream


@lru_cache(STREAMS)
def honest_parts(number: int) -> tuple[Part, ...]:
    """The messages of an honest stream; what its columns are, the hub need not take."""
    generator = random.Random(number)
    rows = generator.choice([0, 1, 3, 3, 20, 20, 20, 20, 20, 20, 20, 3_000])
    names = ["recipient", *(name for name in COLUMNS if name != "recipient" and generator.random() < 0.4)]
    columns = {name: _column(generator, name, rows) for name in names}
    if generator.random() < 0.05:
        columns[generator.choice(["extra", "sequence_number", "état"])] = _column(generator, "data", rows)
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    options = ipc.IpcWriteOptions(
        compression=generator.choice([None, None, "lz4", "zstd"]), emit_dictionary_deltas=generator.random() < 0.5
    )
    with ipc.new_stream(sink, batch.schema, options=options) as writer:
        for _ in range(generator.choice([0, 1, 1, 1, 3])):
            writer.write_batch(batch)
    return parts_of(sink.getvalue().to_pybytes())


def parts_of(stream: bytes) -> tuple[Part, ...]:
    parts: list[Part] = []
    source = pa.BufferReader(stream)
    while True:
        try:
            message = ipc.read_message(source)
        except EOFError:
            return tuple(parts)
        metadata, body = message.metadata.to_pybytes(), message.body
        parts.append(Part(metadata, b"" if body is None else body.to_pybytes()))


# Columns as they should be, and as they might be


def _texts(generator: Random, rows: int) -> Any:
    names = [generator.choice(["ada", "ben", "näme", "x" * 200]) for _ in range(4)]
    plain = pa.array([generator.choice(names) for _ in range(rows)], pa.string())
    kinds: Sequence[pa.DataType] = (pa.string(), pa.string(), pa.large_string(), pa.string_view())
    if generator.random() < 0.4:
        return plain.cast(generator.choice(kinds))
    made = plain.dictionary_encode()
    indices: pa.Array[Any] = made.indices.cast(generator.choice([pa.int8(), pa.int32(), pa.uint16(), pa.int64()]))
    return pa.DictionaryArray.from_arrays(indices, made.dictionary.cast(generator.choice(kinds)))


def _nullable_texts(generator: Random, rows: int) -> Any:
    return pa.array(
        [generator.choice([*TEXTS, None]) for _ in range(rows)], generator.choice([pa.string(), pa.string_view()])
    )


def _bytes(generator: Random, rows: int) -> Any:
    values = [generator.choice([generator.randbytes(generator.randrange(60)), b"{}", None]) for _ in range(rows)]
    return pa.array(values, generator.choice([pa.binary(), pa.large_binary(), pa.binary_view()]))


def _ids(generator: Random, rows: int) -> Any:
    if generator.random() < 0.5:
        return pa.array([generator.choice(IDS) for _ in range(rows)], pa.binary(16))
    return _nullable_texts(generator, rows)


def _maps(generator: Random, rows: int) -> Any:
    kind = pa.map_(
        generator.choice([pa.string(), pa.string_view()]), generator.choice([pa.string(), pa.large_string()])
    )
    return pa.array([generator.choice([None, [], [("a", "b")], [("c", "d"), ("e", "")]]) for _ in range(rows)], kind)


def _strange(generator: Random, rows: int) -> Any:
    """A column of a type that the hub need not take."""
    whole = np.arange(rows)
    nested: Any = pa.array([1] * rows)
    for _ in range(generator.choice([1, 20])):
        nested = pa.StructArray.from_arrays([nested], ["s"])
    makers: Sequence[Callable[[], Any]] = (
        lambda: pa.nulls(rows),
        lambda: pa.array([[1], [], None] * rows, pa.list_(pa.int64())).slice(0, rows),
        lambda: pa.array([["a"]] * rows, pa.list_view(pa.string())),
        lambda: pa.array([[1, 2]] * rows, pa.list_(pa.int32(), 2)),
        lambda: nested,
        lambda: pa.RunEndEncodedArray.from_arrays(
            pa.array([rows] if rows else [], pa.int32()), pa.array(["r"] if rows else [], pa.string())
        ),
        lambda: pa.UnionArray.from_sparse(pa.array([0] * rows, pa.int8()), [pa.array(whole)]),
        lambda: pa.UnionArray.from_dense(
            pa.array([0] * rows, pa.int8()), pa.array(whole, pa.int32()), [pa.array(whole)]
        ),
        lambda: pa.array([Decimal(1)] * rows, pa.decimal128(10)),
        lambda: pa.array([{"k": "v", "n": [1.5, None]}] * rows),
        lambda: pa.array([1.5] * rows, pa.float16()),
        lambda: pa.array(["a"] * rows).dictionary_encode(),
        lambda: pa.array([[("a", [b"b"])]] * rows, pa.map_(pa.string(), pa.list_(pa.binary()))),
    )
    return generator.choice(makers)()


COLUMNS: dict[str, Callable[[Random, int], Any]] = {
    "recipient": _texts,
    "origin": _texts,
    "kind": _texts,
    "document_type": _nullable_texts,
    "media_type": _nullable_texts,
    "id": _ids,
    "data": _bytes,
    "properties": _maps,
    "weight": lambda generator, rows: pa.array(
        [generator.choice([1, None, 5]) for _ in range(rows)], generator.choice([pa.int64(), pa.uint8(), pa.int32()])
    ),
    "bundleable": lambda generator, rows: pa.array([generator.choice([True, None]) for _ in range(rows)], pa.bool_()),
    "expires_at": lambda generator, rows: pa.array(
        [generator.choice([2**40, None]) for _ in range(rows)],
        generator.choice([pa.timestamp("s", "UTC"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")]),
    ),
}


def _column(generator: Random, name: str, rows: int) -> Any:
    return _strange(generator, rows) if generator.random() < 0.1 else COLUMNS[name](generator, rows)


# Damages


def _flipped(generator: Random, content: bytes, bits: int = 3) -> bytes:
    spoilt = bytearray(content)
    for _ in range(generator.randrange(1, 1 + bits) if spoilt else 0):
        spoilt[generator.randrange(len(spoilt))] ^= 1 << generator.randrange(8)
    return bytes(spoilt)


def _lied(generator: Random, content: bytes, kind: str) -> bytes:
    """A number in it is another one."""
    size = struct.calcsize(kind)
    if len(content) < size:
        return content
    spoilt = bytearray(content)
    for _ in range(generator.choice([1, 1, 3])):
        lie = generator.choice([*_LIES, len(content), len(content) * 1_000])
        struct.pack_into(kind, spoilt, generator.randrange(len(content) // size) * size, lie & (2 ** (8 * size) - 1))
    return bytes(spoilt)


def _chosen(generator: Random, parts: list[Part]) -> int:
    return generator.randrange(len(parts))


def _flip_metadata(generator: Random, parts: list[Part]) -> None:
    at = _chosen(generator, parts)
    parts[at] = parts[at]._replace(metadata=_flipped(generator, parts[at].metadata))


def _flip_body(generator: Random, parts: list[Part]) -> None:
    at = _chosen(generator, parts)
    parts[at] = parts[at]._replace(body=_flipped(generator, parts[at].body, 20))


def _lie_in_metadata(generator: Random, parts: list[Part]) -> None:
    at = _chosen(generator, parts)
    parts[at] = parts[at]._replace(metadata=_lied(generator, parts[at].metadata, generator.choice(["<Q", "<I", "<H"])))


def _lie_in_body(generator: Random, parts: list[Part]) -> None:
    at = _chosen(generator, parts)
    parts[at] = parts[at]._replace(body=_lied(generator, parts[at].body, generator.choice(["<Q", "<I", "<I", "<B"])))


def _other_types(generator: Random, parts: list[Part]) -> None:
    """The columns of one stream, called what those of another are."""
    parts[0] = generator.choice(honest_parts(generator.randrange(STREAMS)))


def _other_part(generator: Random, parts: list[Part]) -> None:
    parts[_chosen(generator, parts)] = generator.choice(honest_parts(generator.randrange(STREAMS)))


def _doubled(generator: Random, parts: list[Part]) -> None:
    parts[_chosen(generator, parts) : 0] = [generator.choice(parts)] * generator.choice([1, 3])


def _lost(generator: Random, parts: list[Part]) -> None:
    del parts[_chosen(generator, parts)]


def _shuffled(generator: Random, parts: list[Part]) -> None:
    generator.shuffle(parts)


def _no_utf8(generator: Random, parts: list[Part]) -> None:
    at = _chosen(generator, parts)
    body = parts[at].body
    for text in (b"ada", b"ben", b"default", b"recipient", b"kind"):
        body = body.replace(text, b"\xff" * len(text)) if generator.random() < 0.5 else body
    parts[at] = Part(
        parts[at].metadata.replace(b"kind", b"k\xffnd") if generator.random() < 0.2 else parts[at].metadata, body
    )


def _cut_body(generator: Random, parts: list[Part]) -> None:
    at = _chosen(generator, parts)
    parts[at] = parts[at]._replace(body=parts[at].body[: generator.randrange(1 + len(parts[at].body)) // 8 * 8])


DAMAGES: Sequence[Callable[[Random, list[Part]], None]] = (
    _flip_metadata,
    _flip_metadata,
    _flip_body,
    _flip_body,
    _lie_in_metadata,
    _lie_in_metadata,
    _lie_in_metadata,
    _lie_in_body,
    _lie_in_body,
    _other_types,
    _other_part,
    _doubled,
    _lost,
    _shuffled,
    _no_utf8,
    _cut_body,
)
