"""The numbers of a producer as a request gives them: three headers, all or none, and one more for a repetition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from restante.errors import InvalidRequest
from restante.limits import OWNER_LEVEL_MAX, PRODUCER_GROUP_MAX, PUBLISHED_SEQUENCE_MAX
from restante.model.producers.producer import ProducerNumbers, are_right
from restante.server.connections.exchange import Exchange

GROUP, LEVEL, SEQUENCE = "Restante-Producer-Group", "Restante-Owner-Level", "Restante-Published-Sequence"
_KEYS = {name: name.lower().encode() for name in (GROUP, LEVEL, SEQUENCE)}
_NAMES = frozenset(_KEYS.values())
NUMBER_HEADERS = _NAMES
"""The headers that number a parcel, in lower case."""
_GROUP, _LEVEL, _SEQUENCE = _KEYS.values()
SEQUENCE_HEADER = _SEQUENCE
MADE_ANEW = "Restante-Made-Anew"
_MADE_ANEW = MADE_ANEW.lower().encode()
_DIGITS_MAX = len(str(PRODUCER_GROUP_MAX))


def producer_numbers(exchange: Exchange) -> ProducerNumbers | None:
    """The numbers of a parcel; None if it has none. Headers that are plainly right are taken at once, others looked at."""
    group, level, sequence = exchange.raw(_GROUP), exchange.raw(_LEVEL), exchange.raw(_SEQUENCE)
    if group is level is sequence is None:
        _refuse_made_anew(exchange)
        return None
    plain = _plain(group, level, sequence, made_anew=_made_anew(exchange)) if exchange.distinct else None
    if plain is not None:
        return plain
    given = [header for header in exchange.scope["headers"] if header[0] in _NAMES]
    return ProducerNumbers(
        group=_number(given, GROUP, PRODUCER_GROUP_MAX),
        owner_level=_number(given, LEVEL, OWNER_LEVEL_MAX),
        published_sequence=_number(given, SEQUENCE, PUBLISHED_SEQUENCE_MAX),
        made_anew=_made_anew(exchange),
    )


def plain_numbers(given: Mapping[bytes, bytes]) -> ProducerNumbers | None:
    """The numbers of a parcel among headers that are distinct; None if it has none that are plainly right."""
    return _plain(given.get(_GROUP), given.get(_LEVEL), given.get(_SEQUENCE), made_anew=False)


def _plain(
    group: bytes | None, level: bytes | None, sequence: bytes | None, *, made_anew: bool
) -> ProducerNumbers | None:
    if not (group and level and sequence and _is_short_number(group + level + sequence)):
        return None
    numbers = ProducerNumbers(
        group=int(group), owner_level=int(level), published_sequence=int(sequence), made_anew=made_anew
    )
    return numbers if are_right(numbers) else None


def refuse_numbers(exchange: Exchange) -> None:
    """Refuse numbers of a publish to any partition: they would mean nothing there."""
    _refuse_made_anew(exchange)
    for name, key in _KEYS.items():
        if exchange.header(key) is not None:
            raise InvalidRequest(
                f"The header {name} numbers the messages of one partition: send them to POST "
                "/v1/partitions/{partition}/parcels, or leave the header out.",
                header=name,
            )


def _is_short_number(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) <= 3 * _DIGITS_MAX


def _made_anew(exchange: Exchange) -> bool:
    given = exchange.raw(_MADE_ANEW)
    if given not in (None, b"true", b"false"):
        raise InvalidRequest(f"The header {MADE_ANEW} must be true or false, not {given!r}.", header=MADE_ANEW)
    return given == b"true"


def _refuse_made_anew(exchange: Exchange) -> None:
    if exchange.header(_MADE_ANEW) is not None:
        raise InvalidRequest(
            f"The header {MADE_ANEW} belongs to a parcel with numbers: leave it out.", header=MADE_ANEW
        )


def whole_number(text: str, most: int) -> int | None:
    """The number that decimal digits say, from 0 to this; None if they say none."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        return None
    value = int(text)
    return value if value <= most else None


def _number(given: Sequence[tuple[bytes, bytes]], header: str, most: int) -> int:
    key = _KEYS[header]
    values = [value for name, value in given if name == key]
    number = whole_number(values[0].decode("latin-1"), most) if len(values) == 1 else None
    if number is None:
        raise _wrong(values, header, most)
    return number


def _wrong(values: Sequence[bytes], header: str, most: int) -> InvalidRequest:
    if not values:
        return InvalidRequest(
            f"The header {header} is missing. A numbered parcel has {GROUP}, {LEVEL} and {SEQUENCE}; any other has none.",
            header=header,
        )
    told = repr(values[0].decode("latin-1")) if len(values) == 1 else f"{len(values)} values"
    return InvalidRequest(f"The header {header} must be one whole number from 0 to {most}, not {told}.", header=header)
