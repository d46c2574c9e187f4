"""Claim checks: content that an origin delivers when it is peeked, and what an origin is told of a dequeue."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event

import pytest
from msgspec.structs import replace

from restante import errors
from restante.client.surface.surface import Reason
from restante.limits import CONTENT_BYTES_MAX
from restante.model.publishing.message import State
from restante.ports.content import Content, ContentRequest, DequeuedNotice, OriginPort
from tests.hub.conftest import HubOpener
from tests.hub.letters import claim, history, id_of, letter, numbers_of, peeked, states, taken

SECONDS = 30.0
"""Longer than anything here takes; a test that waits so long has failed."""


class Office:
    """An origin that delivers what it is told to, or fails, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Content | Exception] = []
        self.asked: list[ContentRequest] = []
        self.told: list[DequeuedNotice] = []
        self.refusals = 0
        self.taken = Event()

    def deliver(self, request: ContentRequest) -> Content:
        self.asked.append(request)
        answer = self.answers.pop(0) if self.answers else Content(data=b"content")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def hear(self, notice: DequeuedNotice) -> None:
        self.told.append(notice)
        if self.refusals:
            self.refusals -= 1
            raise RuntimeError("come again")
        self.taken.set()

    def ports(self) -> Mapping[str, OriginPort]:
        return {"charges": OriginPort(content=self.deliver, dequeued=self.hear)}


@pytest.fixture
def office() -> Office:
    return Office()


def test_the_origin_is_asked_for_the_content_of_the_whole_bundle(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    office.answers = [Content(data=b"<prices/>", media_type="text/xml")]
    hub.producer.send([claim(1, origin="charges"), claim(2, origin="charges")])
    bundle = peeked(hub)
    (request,) = office.asked
    assert (bundle.content, bundle.media_type, bundle.message_count) == (b"<prices/>", "text/xml", 2)
    assert (request.bundle_id, request.recipient, request.format) == (bundle.bundle_id, "ada", "json")
    assert request.message_ids == (id_of(1), id_of(2))


def test_the_origin_is_asked_and_told_by_the_ids_that_it_gave(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    hub.producer.send([claim(1, origin="charges"), replace(claim(2, origin="charges"), id="order/7")])
    peeked(hub).dequeue()
    assert office.taken.wait(SECONDS)
    assert office.asked[0].message_ids == office.told[0].message_ids == (id_of(1), "order/7")


def test_content_is_kept_with_the_bundle_and_not_asked_for_again(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    hub.producer.send(claim(1, origin="charges"))
    assert peeked(hub).content == peeked(hub).content == b"content"
    hub = open_hub(origins=office.ports())
    assert peeked(hub).content == b"content"
    assert len(office.asked) == 1


def test_large_content_comes_back_whole(open_hub: HubOpener, office: Office) -> None:
    large = bytes(range(256)) * (CONTENT_BYTES_MAX // 256)
    hub = open_hub(origins=office.ports())
    office.answers = [Content(data=large)]
    hub.producer.send(claim(1, origin="charges"))
    assert peeked(hub).content == large
    assert peeked(open_hub(origins=office.ports())).content == large


def test_a_failure_leaves_the_bundle_open_and_the_next_peek_asks_again(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    office.answers = [RuntimeError("down"), TimeoutError("slow")]
    hub.producer.send([claim(1, origin="charges"), claim(2, origin="charges")])
    for _ in range(2):
        with pytest.raises(errors.OriginDidNotDeliver):
            hub.recipient("ada").peek(max_messages=1)
    bundle = peeked(hub)
    assert len(office.asked) == 3
    assert len({(request.request_id, request.bundle_id) for request in office.asked}) == 1
    assert (bundle.bundle_id, bundle.message_count) == (office.asked[0].bundle_id, 1)


def test_the_request_id_is_the_same_after_reopening(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    office.answers = [RuntimeError("down")]
    hub.producer.send(claim(1, origin="charges"))
    with pytest.raises(errors.OriginDidNotDeliver):
        hub.recipient("ada").peek()
    peeked(open_hub(origins=office.ports()))
    assert len({request.request_id for request in office.asked}) == 1


def test_different_bundles_ask_under_different_request_ids(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    hub.producer.send([claim(1, origin="charges"), claim(2, origin="charges", kind="b")])
    peeked(hub).dequeue()
    peeked(hub)
    assert len({request.request_id for request in office.asked}) == 2


def test_explain_says_that_the_origin_did_not_deliver(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    office.answers = [RuntimeError("down")]
    hub.producer.send(claim(1, origin="charges"))
    assert hub.recipient("ada").explain().reason is Reason.READY
    with pytest.raises(errors.OriginDidNotDeliver):
        hub.recipient("ada").peek()
    assert hub.recipient("ada").explain().reason is Reason.ORIGIN_DID_NOT_DELIVER
    peeked(hub)
    assert hub.recipient("ada").explain().reason is Reason.READY


def test_too_much_content_is_not_taken(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    office.answers = [Content(data=bytes(CONTENT_BYTES_MAX + 1))]
    hub.producer.send(claim(1, origin="charges"))
    with pytest.raises(errors.OriginDidNotDeliver):
        hub.recipient("ada").peek()
    assert peeked(hub).content == b"content"


def test_a_bundle_ends_where_inline_changes_to_claim_check(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    hub.producer.send(
        [
            letter(1, origin="charges"),
            letter(2, origin="charges"),
            claim(3, origin="charges"),
            claim(4, origin="charges"),
            letter(5, origin="charges"),
        ]
    )
    assert taken(hub) == [1, 2]
    bundle = peeked(hub)
    assert (bundle.content, bundle.message_count) == (b"content", 2)
    bundle.dequeue()
    assert taken(hub) == [5]


def test_the_format_is_passed_on_and_fixed_while_the_bundle_is_open(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    hub.producer.send(claim(1, origin="charges"))
    bundle = peeked(hub, format="xml")
    assert office.asked[0].format == "xml"
    with pytest.raises(errors.BundleOpen) as caught:
        hub.recipient("ada").peek(format="json")
    assert caught.value.details["bundle_id"] == bundle.bundle_id
    assert peeked(hub, format="xml").bundle_id == bundle.bundle_id


def test_a_format_means_nothing_to_an_inline_bundle(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    hub.producer.send(letter(1, origin="charges"))
    assert numbers_of(peeked(hub, format="xml").messages) == numbers_of(peeked(hub, format="json").messages) == [1]


def test_a_bundle_without_content_may_be_dequeued(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    office.answers = [RuntimeError("down")]
    hub.producer.send(claim(1, origin="charges"))
    with pytest.raises(errors.OriginDidNotDeliver):
        hub.recipient("ada").peek()
    hub.recipient("ada").dequeue(office.asked[0].bundle_id)
    assert states(hub) == [State.COLLECTED]


def test_claim_checks_are_shown_in_history_without_data(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    sent = claim(1, origin="charges")
    hub.producer.send(sent)
    assert hub.recipient("ada").find(id_of(1)).data is sent.data
    assert history(hub) == [(1, State.WAITING)]


def test_the_origin_is_told_of_a_dequeue_until_it_takes_it(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    office.refusals = 2
    hub.producer.send([claim(1, origin="charges"), claim(2, origin="charges")])
    bundle = peeked(hub)
    bundle.dequeue()
    assert office.taken.wait(SECONDS)
    assert len(office.told) == 3
    assert len(set(office.told)) == 1
    notice = office.told[0]
    assert (notice.bundle_id, notice.recipient) == (bundle.bundle_id, "ada")
    assert notice.message_ids == (id_of(1), id_of(2))


def test_the_origin_of_inline_messages_is_told_too(open_hub: HubOpener, office: Office) -> None:
    hub = open_hub(origins=office.ports())
    hub.producer.send(letter(1, origin="charges"))
    peeked(hub).dequeue()
    assert office.taken.wait(SECONDS)
    assert [notice.message_ids for notice in office.told] == [(id_of(1),)]
