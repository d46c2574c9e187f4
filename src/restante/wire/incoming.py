"""Bodies of messages, whatever their type, into what the hub takes: values, or a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from restante.model.message import Message
from restante.wire import media
from restante.wire.incoming_arrow import decode_arrow
from restante.wire.incoming_cloudevents import decode_batch, decode_binary, decode_event, is_binary_mode
from restante.wire.incoming_json import decode_json
from restante.wire.json_values import Body

__all__ = ["Body", "decode_messages"]


def decode_messages(
    body: Body, *, content_type: str | None, headers: Mapping[str, str]
) -> Sequence[Message] | pa.Table:
    """The messages of a body; header names are in lower case.

    Only shapes are checked here, for the rules are the hub's. But if a shape is wrong, the refusal tells what the
    rules say as well, so that the sender need not come twice.
    """
    if is_binary_mode(headers) and (content_type is None or not media.essence(content_type).startswith(_EVENTS)):
        return decode_binary(body, content_type=content_type, headers=headers)
    return _DECODERS[media.body_type(content_type)](body)


_EVENTS = "application/cloudevents"
_DECODERS: dict[str, Callable[[Body], Sequence[Message] | pa.Table]] = {
    media.JSON: decode_json,
    media.CLOUDEVENT: decode_event,
    media.CLOUDEVENTS_BATCH: decode_batch,
    media.ARROW: decode_arrow,
}
