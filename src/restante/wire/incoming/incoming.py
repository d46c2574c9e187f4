"""Bodies of messages, whatever their type, into what the hub takes: values, or a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from restante.model.publishing.message import Message
from restante.model.publishing.refusals import Flawed
from restante.wire import media
from restante.wire.incoming.incoming_arrow import decode_arrow
from restante.wire.incoming.incoming_cloudevents import decode_batch, decode_binary, decode_event, is_binary_mode
from restante.wire.incoming.incoming_json import decode_json
from restante.wire.json_pieces import TakeRoom, no_bound
from restante.wire.json_values import Body

__all__ = ["Body", "Sent", "decode_messages"]

Sent = Sequence[Message] | Flawed | pa.Table
"""Messages as they were sent."""


def decode_messages(
    body: Body, *, content_type: str | None, headers: Mapping[str, str], take_room: TakeRoom = no_bound
) -> Sent:
    """The messages of a body; header names are in lower case. `take_room` is called before memory is taken for many of them.

    Only shapes are checked here, because the hub has the rules. The hub also raises the refusal of messages with a wrong shape,
    together with all their other faults, so that the sender need not come twice.
    """
    if is_binary_mode(headers) and (content_type is None or not media.essence(content_type).startswith(_EVENTS)):
        return decode_binary(body, content_type=content_type, headers=headers)
    return _DECODERS[media.body_type(content_type)](body, take_room)


_EVENTS = "application/cloudevents"
_DECODERS: dict[str, Callable[[Body, TakeRoom], Sent]] = {
    media.JSON: decode_json,
    media.CLOUDEVENT: decode_event,
    media.CLOUDEVENTS_BATCH: decode_batch,
    media.ARROW: decode_arrow,
}
