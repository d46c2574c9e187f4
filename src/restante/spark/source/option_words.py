"""Options out of texts and files. Help texts and errors describe in the same words what each option may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect, structs

from restante.decoders import converted, json_decoder
from restante.errors import InvalidRequest

_SHOWN_CHARACTERS_MAX = 80
S = TypeVar("S", bound=msgspec.Struct)


def struct_of(kind: type[S], given: Mapping[str, object], *, whose: str) -> S:
    """Options made of values that have types already. `InvalidRequest` says what is wrong, and with `whose` option."""
    return _made(kind, given, whose, lambda field, value: converted(value, field.type))


def struct_of_text(kind: type[S], given: Mapping[str, str], *, whose: str) -> S:
    """Options made of texts."""
    return _made(kind, given, whose, lambda field, text: value_of_text(field.type, str(text)))


def _made(
    kind: type[S], given: Mapping[str, object], whose: str, read: Callable[[structs.FieldInfo, object], object]
) -> S:
    fields = {field.name: field for field in structs.fields(kind)}
    values: dict[str, object] = {}
    for name, value in given.items():
        if name not in fields:
            there = f"There are {', '.join(fields)}." if fields else "There are none."
            raise InvalidRequest(f"{whose}: there is no option {name!r}. {there}")
        try:
            values[name] = read(fields[name], value)
        except ValueError as error:
            raise InvalidRequest(f"{whose}: {_wrong(fields[name], value)}") from error
    try:
        return kind(**values)
    except (ValueError, TypeError) as error:  # one is missing, or what they have against one another
        raise InvalidRequest(f"{whose}: {error}.") from error


def _wrong(field: structs.FieldInfo, value: object) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN_CHARACTERS_MAX else f"{shown[:_SHOWN_CHARACTERS_MAX]}…"
    return f"{field.name} must be {words_for(field.type)}, not {shown}."


def words_for(kind: object) -> str:
    """The words for a kind, such as `a whole number of at least 1`, or `one of a, b`."""
    return _words(inspect.type_info(kind))


def description_of(kind: object) -> str:
    """The description in its annotation, or nothing."""
    found = inspect.type_info(kind)
    note = found.extra_json_schema if isinstance(found, inspect.Metadata) else None
    return str((note or {}).get("description", ""))


def value_of_text(kind: object, text: str) -> object:
    """The value that a text stands for. Lists are `a,b` or JSON, tables JSON; `ValueError` if it cannot be."""
    found = _bare(inspect.type_info(kind))
    if _is_plain(found):
        return converted(text, kind, strict=False)
    if text.lstrip()[:1] in ("[", "{") or text == "null":
        return json_decoder(kind).decode(text)
    listed = [part.strip() for part in text.split(",")] if text else []
    return converted(listed if _is_list(found) else text, kind, strict=False)


def _bare(kind: inspect.Type) -> inspect.Type:
    """Without what is written beside it, and without `None`, if only that is the other choice."""
    while True:
        if isinstance(kind, inspect.Metadata):
            kind = kind.type
        elif isinstance(kind, inspect.UnionType) and len(_choices(kind)) == 1:
            kind = _choices(kind)[0]
        else:
            return kind


def _choices(kind: inspect.UnionType) -> list[inspect.Type]:
    return [one for one in kind.types if not isinstance(one, inspect.NoneType)]


def _is_list(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.ListType | inspect.VarTupleType | inspect.TupleType | inspect.SetType)


def _is_plain(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.UnionType):
        return all(_is_plain(_bare(one)) for one in kind.types)
    return not isinstance(kind, inspect.DictType | inspect.StructType) and not _is_list(kind)


def _words(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata):
        return _words(kind.type)
    if isinstance(kind, inspect.UnionType):
        return " or ".join(map(_words, _choices(kind)))
    words = _WORDS.get(type(kind))
    return words(kind) if words else "a value that suits it"


def _number(name: str) -> Callable[[Any], str]:
    """A number with its bounds, as far as it has some."""

    def words(kind: inspect.IntType | inspect.FloatType) -> str:
        bounds = ((kind.ge, "at least"), (kind.gt, "more than"), (kind.le, "at most"), (kind.lt, "less than"))
        told = " and ".join(f"{word} {bound:,}" for bound, word in bounds if bound is not None)
        return f"{name} of {told}" if told else name

    return words


def _text(kind: inspect.StrType) -> str:
    if kind.pattern is not None:
        return f"a text like {kind.pattern}"
    return "a text that is not empty" if kind.min_length else "a text"


def _one_of(values: list[object]) -> str:
    return f"one of {', '.join(map(str, values))}"


def _list(kind: Any) -> str:  # noqa: ANN401  # one of three types with items of one type
    return f"a list, each {_words(kind.item_type)}"


_WORDS: dict[type, Callable[[Any], str]] = {
    inspect.IntType: _number("a whole number"),
    inspect.FloatType: _number("a number"),
    inspect.BoolType: lambda _: "true or false",
    inspect.StrType: _text,
    inspect.LiteralType: lambda kind: _one_of(list(kind.values)),
    inspect.EnumType: lambda kind: _one_of([one.value for one in kind.cls]),
    inspect.DateTimeType: lambda _: "a time such as 2030-01-31T12:00:00Z",
    inspect.DateType: lambda _: "a day such as 2030-01-31",
    inspect.ListType: _list,
    inspect.VarTupleType: _list,
    inspect.SetType: _list,
    inspect.TupleType: lambda kind: f"a list of {len(kind.item_types)}",
    inspect.DictType: lambda kind: f"a table, each value {_words(kind.value_type)}",
    inspect.StructType: lambda kind: f"a table with {', '.join(field.name for field in kind.fields)}",
}
