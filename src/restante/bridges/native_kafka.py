"""The C library librdkafka, which comes inside of `confluent-kafka`, called by its own public interface.

The Python client makes an object of each record that it produces, and takes the interpreter's lock again for each that is
delivered. The C library takes records as an array of places in memory: so a column of texts goes to Kafka as it lies.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from restante.backplanes.kafka_library import kafka_library

_log = logging.getLogger("restante.kafka")
_TEXT_BYTES = 512
_PRODUCER = 0
_WARNING = 4
"""The level of syslog for a warning; graver levels have lower numbers."""
RECORD = np.dtype(
    [
        ("err", "i4"),
        ("_pad", "i4"),
        ("topic", "u8"),
        ("partition", "i4"),
        ("_pad_too", "i4"),
        ("payload", "u8"),
        ("len", "u8"),
        ("key", "u8"),
        ("key_len", "u8"),
        ("offset", "i8"),
        ("private", "u8"),
    ]
)
"""`rd_kafka_message_t` on machines of 64 bits."""
_POINTER, _NUMBER, _TEXT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
_FUNCTIONS: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_version_str": (_TEXT, ()),
    "rd_kafka_conf_new": (_POINTER, ()),
    "rd_kafka_conf_set": (_NUMBER, (_POINTER, _TEXT, _TEXT, _TEXT, _SIZE)),
    "rd_kafka_conf_set_log_cb": (None, (_POINTER, _POINTER)),
    "rd_kafka_conf_destroy": (None, (_POINTER,)),
    "rd_kafka_new": (_POINTER, (_NUMBER, _POINTER, _TEXT, _SIZE)),
    "rd_kafka_destroy": (None, (_POINTER,)),
    "rd_kafka_poll": (_NUMBER, (_POINTER, _NUMBER)),
    "rd_kafka_topic_new": (_POINTER, (_POINTER, _TEXT, _POINTER)),
    "rd_kafka_topic_destroy": (None, (_POINTER,)),
    "rd_kafka_produce_batch": (_NUMBER, (_POINTER, ctypes.c_int32, _NUMBER, _POINTER, _NUMBER)),
    "rd_kafka_init_transactions": (_POINTER, (_POINTER, _NUMBER)),
    "rd_kafka_begin_transaction": (_POINTER, (_POINTER,)),
    "rd_kafka_commit_transaction": (_POINTER, (_POINTER, _NUMBER)),
    "rd_kafka_abort_transaction": (_POINTER, (_POINTER, _NUMBER)),
    "rd_kafka_send_offsets_to_transaction": (_POINTER, (_POINTER, _POINTER, _POINTER, _NUMBER)),
    "rd_kafka_consumer_group_metadata_new": (_POINTER, (_TEXT,)),
    "rd_kafka_consumer_group_metadata_destroy": (None, (_POINTER,)),
    "rd_kafka_topic_partition_list_new": (_POINTER, (_NUMBER,)),
    "rd_kafka_topic_partition_list_add": (_POINTER, (_POINTER, _TEXT, ctypes.c_int32)),
    "rd_kafka_topic_partition_list_set_offset": (
        _NUMBER,
        (_POINTER, _TEXT, ctypes.c_int32, ctypes.c_int64),
    ),
    "rd_kafka_topic_partition_list_destroy": (None, (_POINTER,)),
    "rd_kafka_error_code": (_NUMBER, (_POINTER,)),
    "rd_kafka_error_string": (_TEXT, (_POINTER,)),
    "rd_kafka_error_is_fatal": (_NUMBER, (_POINTER,)),
    "rd_kafka_error_is_retriable": (_NUMBER, (_POINTER,)),
    "rd_kafka_error_txn_requires_abort": (_NUMBER, (_POINTER,)),
    "rd_kafka_error_destroy": (None, (_POINTER,)),
}


@lru_cache(1)
def native_library() -> Any | None:  # noqa: ANN401 - functions are found by name
    """The library that the Python client uses itself; None where it is not found, or another one."""
    client: Any = kafka_library()
    if ctypes.sizeof(_POINTER) != 8:
        return None
    package = Path(client.__file__).parent
    for place in sorted(
        [*package.parent.glob("confluent_kafka.libs/librdkafka*"), *package.glob(".dylibs/librdkafka*")]
    ):
        try:
            library = _declared(ctypes.CDLL(str(place)))
        except (OSError, AttributeError):
            continue
        if library.rd_kafka_version_str().decode() == client.libversion()[0]:
            return library
    return None


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def native_producer(library: Any, settings: Mapping[str, Any]) -> int:  # noqa: ANN401 - functions are found by name
    """The handle of a new producer, to be destroyed by the caller."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    made = library.rd_kafka_conf_new()
    library.rd_kafka_conf_set_log_cb(made, ctypes.cast(_LOG_CALLBACK, _POINTER))
    for name, value in settings.items():
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        if name != "logger" and library.rd_kafka_conf_set(made, name.encode(), shown.encode(), text, _TEXT_BYTES):
            library.rd_kafka_conf_destroy(made)
            raise _exception(kafka_library().KafkaError._INVALID_ARG, text.value.decode())  # noqa: SLF001 - so named there
    handle: int | None = library.rd_kafka_new(_PRODUCER, made, text, _TEXT_BYTES)
    if handle is None:
        library.rd_kafka_conf_destroy(made)
        raise _exception(kafka_library().KafkaError._INVALID_ARG, text.value.decode())  # noqa: SLF001 - so named there
    return handle


def _hear(_handle: int, level: int, facility: bytes, text: bytes) -> None:
    _log.log(
        logging.WARNING if level <= _WARNING else logging.INFO,
        "%s: %s",
        *(part.decode(errors="replace") for part in (facility, text)),
    )


_LOG_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)(_hear)
"""Kept for as long as the library may call it."""


def require_none(library: Any, error: int | None) -> None:  # noqa: ANN401 - functions are found by name
    """Raise the error that the library gave, as its Python client would."""
    if error is None:
        return
    code, text = library.rd_kafka_error_code(error), library.rd_kafka_error_string(error).decode()
    marks = {
        "fatal": library.rd_kafka_error_is_fatal(error),
        "retriable": library.rd_kafka_error_is_retriable(error),
        "txn_requires_abort": library.rd_kafka_error_txn_requires_abort(error),
    }
    library.rd_kafka_error_destroy(error)
    raise _exception(code, text, **marks)


def _exception(code: int, text: str, **marks: int) -> Exception:
    client: Any = kafka_library()
    error: Exception = client.KafkaException(client.KafkaError(code, text, **marks))
    return error


def raise_code(code: int) -> None:
    client: Any = kafka_library()
    raise client.KafkaException(client.KafkaError(code))
