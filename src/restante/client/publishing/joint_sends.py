"""Small sends that share a request: which may share one, and the dialogue that sends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from restante.calls.publishing import Publish
from restante.client.batches.joint_calls import JointCall, JointOutcome
from restante.client.nodes.hub_places import SENDS_PATH
from restante.client.transport.exchange import Dialogue, HttpRequest
from restante.client.transport.http_answers import carried_out
from restante.client.transport.options import Terms
from restante.client.transport.requests import WITH_JSON
from restante.client.transport.retries import Answered, answered
from restante.client.transport.small_protocol import publish_encoded
from restante.errors import OutcomeUnknown
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import EncodedPublish, Few
from restante.wire.media import JSON
from restante.wire.problems import error_of


class _Answer(msgspec.Struct, frozen=True):
    receipt: Receipt | None = None
    problem: dict[str, Any] | None = None


class _Answers(msgspec.Struct, frozen=True):
    answers: tuple[_Answer, ...]


def may_share(call: Publish) -> bool:
    """Whether a send has no options besides its messages, and these are few."""
    return (
        isinstance(call.sent, Few)
        and call.partition is None
        and call.producer is None
        and call.batch is None
        and call.source is None
        and call.accept is None
    )


def joint_send(terms: Terms, encoded: EncodedPublish) -> JointCall | None:
    """A send as part of a joint request; None if it is not JSON."""
    if encoded.content_type != JSON:
        return None
    return JointCall(bytes(encoded.body), len(encoded.body), terms.places.owner_of_send(encoded.body))


def send_each(terms: Terms, sends: Sequence[bytes]) -> Dialogue[Sequence[JointOutcome[Receipt]]]:
    """Send these together; return the receipt or the refusal of each."""
    if len(sends) == 1:
        return ((yield from publish_encoded(terms, EncodedPublish(JSON, sends[0]))),)
    request = HttpRequest(
        "POST", SENDS_PATH, terms.timeout, headers=WITH_JSON, body=b'{"sends":[%b]}' % b",".join(sends)
    )
    answer: Answered = yield from answered(terms, lambda _: request)
    answers = carried_out(answer.response, terms.address, 200, _Answers).answers
    if len(answers) != len(sends):
        told = f"The hub at {terms.address.url} has answered {len(answers)} of {len(sends)} sends."
        raise OutcomeUnknown(f"{told} They may have been carried out; repeating them does no harm.")
    return [_outcome(each) for each in answers]


def _outcome(answer: _Answer) -> JointOutcome[Receipt]:
    return error_of(answer.problem or {}) if answer.receipt is None else answer.receipt
