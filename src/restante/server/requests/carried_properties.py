"""Properties that go with an action to its handler: the correlation id, and the trace that it belongs to."""

from __future__ import annotations

from restante.model.actions.action_kind import CORRELATION_PROPERTY, TRACE_PROPERTY

_TRACE_CHARACTERS_MAX = 128


def carried_properties(correlation_id: str, trace: str | None) -> dict[str, str]:
    carried = {CORRELATION_PROPERTY: correlation_id}
    if trace is not None and len(trace) <= _TRACE_CHARACTERS_MAX and trace.isascii() and trace.isprintable():
        carried[TRACE_PROPERTY] = trace
    return carried
