"""The properties of messages: maps of text to text in Arrow, one compact JSON object a message in the hub."""

from __future__ import annotations

from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.decoders import json_decoder
from restante.model.columns.arrow import Column, binaries_of, bytes_of, map_array, offsets_of, string_array

MAP_TYPE = pa.map_(pa.string(), pa.string())

_QUOTE, _BACKSLASH, _FIRST_PLAIN = b'"\\ '
_decoder = json_decoder(list[dict[str, str]])


def no_properties(n: int) -> pa.BinaryArray:
    empty: pa.BinaryArray = pa.repeat(pa.scalar(b""), n)
    return empty


def decode_properties(objects: pa.BinaryArray) -> pa.MapArray[Any, Any]:
    """The maps of stored properties; null where a message has none. Where many are the same, each is decoded once."""
    encoded: Column = objects.dictionary_encode()
    if 2 * len(encoded.dictionary) > len(objects):
        return _decoded(objects)
    maps: pa.MapArray[Any, Any] = _decoded(encoded.dictionary).take(encoded.indices)
    return maps


def _decoded(objects: pa.BinaryArray) -> pa.MapArray[Any, Any]:
    filled: NDArray[np.bool_] = np.diff(offsets_of(objects)) > 0
    if not filled.any():
        return pa.nulls(len(objects), MAP_TYPE)
    texts = binaries_of(objects.filter(pa.array(filled)))
    maps = _decoder.decode(b"".join((b"[", b",".join(texts), b"]")))
    counts = np.zeros(len(objects) + 1, np.int64)
    counts[1:][filled] = np.fromiter(map(len, maps), np.int64, len(maps))
    keys = string_array(list(chain.from_iterable(maps)))
    items = string_array(list(chain.from_iterable(map(dict.values, maps))))
    return map_array(np.cumsum(counts), keys, items, ~filled)


def joined(*parts: Column) -> Column:
    """The parts of each row, with the last of them in between."""
    join: Column = pc.binary_join_element_wise
    return join(*parts)


def json_texts(texts: pa.StringArray) -> Column:
    """Each text as JSON writes it: mostly it need only be quoted."""
    if not need_escapes(texts):
        return joined('"', texts, '"', "")
    encoded = texts.dictionary_encode()
    quoted = [msgspec.json.encode(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(quoted, pa.string()).take(encoded.indices)


def need_escapes(texts: pa.StringArray) -> bool:
    """Whether some text has a quote, a backslash or a control character. All bytes at once take a tenth of what texts take."""
    content = bytes_of(texts)
    return bool((content < _FIRST_PLAIN).any() or (content == _QUOTE).any() or (content == _BACKSLASH).any())
