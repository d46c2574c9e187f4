"""A record whose header has any bytes as its name, as programs in C can write it. The Python client cannot."""

from __future__ import annotations

import ctypes

from restante.bridges.native_kafka import native_library, native_producer

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_TOPIC, _VALUE, _HEADERS = 1, 4, 10
"""The kinds of arguments of `rd_kafka_produceva`."""


class _Memory(ctypes.Structure):
    _fields_ = (("start", ctypes.c_char_p), ("size", _SIZE))


class _Content(ctypes.Union):
    _fields_ = (("text", ctypes.c_char_p), ("place", _POINTER), ("memory", _Memory), ("_room", ctypes.c_char * 64))


class _Argument(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int), ("content", _Content))


def produce_with_header(brokers: str, topic: str, value: bytes, name: bytes) -> None:
    library = native_library()
    assert library is not None
    library.rd_kafka_headers_new.restype, library.rd_kafka_headers_new.argtypes = _POINTER, (_SIZE,)
    text, length = ctypes.c_char_p, ctypes.c_ssize_t
    library.rd_kafka_header_add.argtypes = (_POINTER, text, length, text, length)
    library.rd_kafka_produceva.restype, library.rd_kafka_produceva.argtypes = _POINTER, (_POINTER, _POINTER, _SIZE)
    library.rd_kafka_flush.argtypes = (_POINTER, ctypes.c_int)
    headers = library.rd_kafka_headers_new(1)
    library.rd_kafka_header_add(headers, name, len(name), b"v", 1)
    given = (_Argument * 3)()
    given[0].kind, given[0].content.text = _TOPIC, topic.encode()
    given[1].kind, given[1].content.memory = _VALUE, _Memory(value, len(value))
    given[2].kind, given[2].content.place = _HEADERS, headers
    producer = native_producer(library, {"bootstrap.servers": brokers})
    assert library.rd_kafka_produceva(producer, ctypes.cast(given, _POINTER), len(given)) is None
    assert library.rd_kafka_flush(producer, 60_000) == 0
    library.rd_kafka_destroy(producer)
