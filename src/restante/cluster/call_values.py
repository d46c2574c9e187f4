"""Calls and their answers as bytes, so that they can be carried to a shard in another process.

A call travels under the name of its class, with the grant of its caller. An answer is decoded by the type that the call
states. A publish travels as letters, if it is few messages that are plainly right, else as the body that came.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, TypeAlias, get_args, get_origin

import msgspec
import pyarrow as pa

from restante import calls
from restante.calls.call import Answer, Call
from restante.calls.groups import ResetPosition
from restante.decoders import converted, json_decoder, packed_decoder
from restante.errors import InvalidRequest, RestanteError
from restante.model.access.access import EVERYTHING, Grant
from restante.model.actions.action_answers import ActionStatus, PoisonPage
from restante.model.groups.group import Start
from restante.model.groups.group_answers import FewPage, NextAnswer, NextPage
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.few_or_many import EncodedPublish
from restante.model.storage.letter import Letter
from restante.wire.problems import error_of, problem_of
from restante.wire.publish import encode_stage, stream_bytes

_SENT = "sent"
"""The field of a call with messages: they travel as a body."""
_GRANTS_REMEMBERED = 1_024


LetterFields: TypeAlias = tuple[bytes, str, str, str, str, str, int, int, bytes, bytes, int]
"""The fields of a `Letter`, in their order."""


class PublishLetters(Call[Receipt], frozen=True, array_like=True):
    """A few messages that are plainly right."""

    letters: tuple[LetterFields, ...]
    partition: int | None = None
    producer: ProducerNumbers | None = None


def letters_of(call: PublishLetters) -> Sequence[Letter]:
    return [Letter(*fields) for fields in call.letters]


_AS_JSON = (ActionStatus, PoisonPage)


class _CarriedPage(msgspec.Struct, array_like=True, frozen=True):
    """A page of what a member reads, with the type of its table known when it is read."""

    partition: int
    generation: int
    next: int
    end: int
    table: pa.Table


class _CarriedNext(msgspec.Struct, array_like=True, frozen=True):
    now: datetime
    pages: tuple[_CarriedPage, ...]
    few: bytes


class _CarriedReset(msgspec.Struct, frozen=True):
    """A reset of a position: a text stays one until it is known whether it is a time or a start."""

    group: str
    partition: int
    to: int | str


_STARTS = frozenset(start.value for start in Start)


class _Carried(msgspec.Struct, array_like=True, frozen=True):
    name: str
    caller: msgspec.Raw
    call: msgspec.Raw


def encode_call(call: Call[Any], caller: Grant) -> bytes:
    kind = type(call)
    fields: object = call
    if _SENT in kind.__struct_fields__:
        fields = {name: getattr(call, name) for name in kind.__struct_fields__}
        fields[_SENT] = encode_stage(fields[_SENT])
    return _encoder.encode(
        _Carried(kind.__name__, msgspec.Raw(_grant_bytes(caller)), msgspec.Raw(_encoder.encode(fields)))
    )


def decode_call(content: bytes) -> tuple[Call[Any], Grant]:
    try:
        carried = _carried.decode(content)
        kind = kinds().get(carried.name)
        if kind is None:
            raise InvalidRequest(f"There is no call {carried.name!r} here. Are all processes of one version?")
        return _call_of(kind, carried.call), _grant(bytes(carried.caller))
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"A call cannot be read: {error}. Are all processes of one version?") from error


def _call_of(kind: type[Call[Any]], content: msgspec.Raw) -> Call[Any]:
    if kind is ResetPosition:
        return _reset_of(packed_decoder(_CarriedReset, _read).decode(content))
    if _SENT not in kind.__struct_fields__:
        call: Call[Any] = packed_decoder(kind, _read).decode(content)
        return call
    fields = msgspec.structs.asdict(packed_decoder(_as_carried(kind), _read).decode(content))
    return kind(**{**fields, _SENT: EncodedPublish(*fields[_SENT])})


def _reset_of(carried: _CarriedReset) -> ResetPosition:
    to: int | datetime | Start
    if isinstance(carried.to, int):
        to = carried.to
    else:
        to = Start(carried.to) if carried.to in _STARTS else converted(carried.to, datetime)
    return ResetPosition(carried.group, carried.partition, to)


@cache
def _as_carried(kind: type[Call[Any]]) -> type[msgspec.Struct]:
    """The fields of a call with messages, those as the body that they travel as."""
    fields = msgspec.structs.fields(kind)
    return msgspec.defstruct(
        f"Carried{kind.__name__}",
        [(one.name, tuple[str, bytes] if one.name == _SENT else one.type) for one in fields],
    )


def encode_answer(answer: object) -> bytes:
    """Encode an answer. One that has JSON of others in it, results and bodies of actions, travels as JSON."""
    if isinstance(answer, _AS_JSON):
        return msgspec.json.encode(answer)
    return _encoder.encode(_carried_next(answer) if isinstance(answer, NextAnswer) else answer)


def decode_answer(call: Call[Answer], content: bytes) -> Answer:
    kind = answer_type(type(call))
    if kind is NextAnswer:
        found: Answer = _next_of(packed_decoder(_CarriedNext, _read).decode(content))
        return found
    answer: Answer = (json_decoder(kind) if kind in _AS_JSON else packed_decoder(kind, _read)).decode(content)
    return answer


def _carried_next(answer: NextAnswer) -> _CarriedNext:
    pages = [_CarriedPage(page.partition, page.generation, page.next, page.end, page.table) for page in answer.pages]
    return _CarriedNext(answer.now, tuple(pages), msgspec.json.encode(answer.few) if answer.few else b"")


def _next_of(carried: _CarriedNext) -> Any:  # noqa: ANN401 - what a call answers that says so
    pages = [NextPage(**msgspec.structs.asdict(page)) for page in carried.pages]
    few = json_decoder(tuple[FewPage, ...]).decode(carried.few) if carried.few else ()
    return NextAnswer(pages=tuple(pages), few=few, now=carried.now)


def encode_error(error: RestanteError) -> bytes:
    return _encoder.encode(problem_of(error, correlation_id=""))


def decode_error(content: bytes) -> RestanteError:
    return error_of(packed_decoder(dict[str, Any]).decode(content))


@cache
def kinds() -> dict[str, type[Call[Any]]]:
    """Every call by its name."""
    for module in pkgutil.iter_modules(calls.__path__, f"{calls.__name__}."):
        import_module(module.name)
    return {kind.__name__: kind for kind in _below(Call)}


def _below(kind: type[Call[Any]]) -> Iterator[type[Call[Any]]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


@cache
def answer_type(kind: type[Call[Any]]) -> Any:  # noqa: ANN401 - whatever the call says that it answers
    for base in getattr(kind, "__orig_bases__", ()):
        if isinstance(get_origin(base), type) and issubclass(get_origin(base), Call):
            return get_args(base)[0]
    raise InvalidRequest(f"{kind.__name__} does not say what it answers.")


def _written(value: object) -> object:
    if isinstance(value, pa.Table):
        return stream_bytes(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be carried")


def _read(kind: type, value: object) -> object:
    if kind is pa.Table and isinstance(value, bytes):
        with pa.ipc.open_stream(pa.py_buffer(value)) as reader:
            return reader.read_all()
    raise NotImplementedError(f"{kind} cannot be carried")


@lru_cache(_GRANTS_REMEMBERED)
def _grant_bytes(caller: Grant) -> bytes:
    return _encoder.encode(None if caller == EVERYTHING else caller)


@lru_cache(_GRANTS_REMEMBERED)
def _grant(content: bytes) -> Grant:
    return _grants.decode(content) or EVERYTHING


_encoder = msgspec.msgpack.Encoder(enc_hook=_written)
_carried = packed_decoder(_Carried)
_grants = packed_decoder(Grant | None)
