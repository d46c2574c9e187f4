"""What goes together in a frame, and who is told what: the pipeline without a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from restante import errors
from restante.client.publishing.pipeline_core import Load, Pipelining, SendOutcome, receipts_of
from restante.client.sockets.frames import Framing, read_answer
from restante.client.transport.exchange import LinkFrame, LongWork, Pause, Reply, Response
from restante.client.transport.options import Retrying
from restante.errors import Fault, MessageConflict, RestanteError
from restante.limits import FRAME_MESSAGES_MAX, PIPELINE_MESSAGES_MAX
from restante.model.mailboxes.answers import PartitionReceipt, Receipt
from restante.model.publishing.message import Message
from tests.client.talking import SILENT, Conversation, json_response

Judge = Callable[[Sequence[str]], Receipt]
"""A hub, for the names of a frame's recipients."""


def letter(name: str, data: bytes = b"") -> Message:
    return Message(recipient=name, data=data)


def all_new(names: Sequence[str]) -> Receipt:
    return Receipt(accepted=len(names), duplicates=0, partitions=())


class Desk:
    """A pipeline whose frames are judged by a function, and the outcomes by the name of their promise."""

    def __init__(self, judge: Judge = all_new) -> None:
        self.judge = judge
        self.frames: list[list[str]] = []
        self.outcomes: dict[str, SendOutcome] = {}
        self.state: Pipelining[str] = Pipelining(self._keep, lambda messages: messages)

    def _keep(self, promise: str, outcome: SendOutcome) -> None:
        assert promise not in self.outcomes, "a promise is kept once"
        self.outcomes[promise] = outcome

    def post(self, *names: str) -> None:
        for name in names:
            self.state.add(letter(name), name)

    def carry(
        self,
        during: Callable[[], None] = lambda: None,
        *,
        ahead: bool = False,
        seen: Callable[[Load[str]], object] = lambda _: None,
    ) -> None:
        """Carry all that waits; `during` is called while each frame is under way, and the next may be prepared ahead."""
        while self.state.wait(0) == 0:
            load = self.state.take()
            seen(load)
            names = [message.recipient for message in load.messages]
            self.frames.append(names)
            during()
            if ahead:
                self.state.prepare()
            assert self.state.wait(0) is None, "one frame at a time"
            self.state.settle(load, self._judged(names))

    def _judged(self, names: Sequence[str]) -> SendOutcome:
        try:
            return self.judge(names)
        except RestanteError as error:
            return error


def refusing(*bad: str, kind: type[MessageConflict] = MessageConflict) -> Judge:
    """A hub that refuses these, and every frame that one of them is in."""

    def judge(names: Sequence[str]) -> Receipt:
        faults = [Fault(index=i, code=kind.code, detail=name) for i, name in enumerate(names) if name in bad]
        if faults:
            raise kind("refused", faults[:1])
        return all_new(names)

    return judge


def test_what_was_sent_meanwhile_goes_together() -> None:
    desk = Desk()
    desk.post("a")
    later = iter([["b", "c"], ["d"], []])
    desk.carry(lambda: desk.post(*next(later)))
    assert desk.frames == [["a"], ["b", "c"], ["d"]]


def test_each_send_gets_a_receipt_of_its_own() -> None:
    desk = Desk()
    desk.post("a", "b")
    desk.state.add([letter("c"), letter("d")], "c and d")
    desk.carry()
    own = {name: Receipt(accepted=n, duplicates=0, partitions=()) for name, n in (("a", 1), ("b", 1), ("c and d", 2))}
    assert desk.outcomes == own


def test_numbers_are_told_when_all_is_in_one_partition() -> None:
    whole = PartitionReceipt(partition=3, first_sequence_number=10, last_sequence_number=12)
    receipts = receipts_of([1, 2], Receipt(accepted=3, duplicates=0, partitions=(whole,)))
    assert [receipt.partitions for receipt in receipts] == [
        (PartitionReceipt(partition=3, first_sequence_number=10, last_sequence_number=10),),
        (PartitionReceipt(partition=3, first_sequence_number=11, last_sequence_number=12),),
    ]


def test_a_frame_that_was_stored_before_is_duplicates() -> None:
    receipts = receipts_of([1, 2], Receipt(accepted=0, duplicates=3, partitions=()))
    assert [(receipt.accepted, receipt.duplicates) for receipt in receipts] == [(0, 1), (0, 2)]


def test_a_frame_stored_in_part_before_has_one_receipt_for_all() -> None:
    mixed = Receipt(accepted=2, duplicates=1, partitions=())
    assert receipts_of([1, 1, 1], mixed) == [mixed, mixed, mixed]


def test_a_send_alone_gets_the_receipt_as_it_is() -> None:
    mixed = Receipt(accepted=2, duplicates=1, partitions=())
    assert receipts_of([3], mixed) == [mixed]


def test_only_the_faulty_are_refused_and_the_others_keep_their_order() -> None:
    desk = Desk(refusing("b", "d"))
    desk.post("a", "b", "c", "d", "e")
    desk.carry(lambda: desk.post("f") if len(desk.frames) == 1 else None)
    refused = {name for name, outcome in desk.outcomes.items() if isinstance(outcome, RestanteError)}
    assert refused == {"b", "d"}
    assert desk.frames[-1] == ["a", "c", "e", "f"]


def test_a_refused_send_learns_which_of_its_messages_it_was() -> None:
    desk = Desk(refusing("c"))
    desk.post("a")
    desk.state.add([letter("b"), letter("c")], "both")
    desk.carry()
    error = desk.outcomes["both"]
    assert isinstance(error, MessageConflict)
    assert error.faults == (Fault(index=1, code="message_conflict", detail="c"),)
    assert isinstance(desk.outcomes["a"], Receipt)


def test_a_frame_refused_as_a_whole_is_halved_until_the_culprit_is_found() -> None:
    def judge(names: Sequence[str]) -> Receipt:
        if "17" in names:
            raise errors.Forbidden("not for you")
        return all_new(names)

    desk = Desk(judge)
    desk.post(*map(str, range(40)))
    desk.carry()
    assert [name for name, outcome in desk.outcomes.items() if isinstance(outcome, RestanteError)] == ["17"]
    stored = [name for frame in desk.frames if "17" not in frame for name in frame]
    assert stored == [str(number) for number in range(40) if number != 17]


def test_after_an_unreachable_hub_everything_behind_fails_too() -> None:
    def judge(names: Sequence[str]) -> Receipt:
        raise errors.Unavailable("gone")

    desk = Desk(judge)
    desk.post("a")
    desk.carry(lambda: desk.post("b"))
    assert {name: type(outcome) for name, outcome in desk.outcomes.items()} == {
        "a": errors.Unavailable,
        "b": errors.Unavailable,
    }
    assert desk.frames == [["a"]]
    assert (desk.state.messages, desk.state.size) == (0, 0)


def test_frames_are_bounded_in_messages() -> None:
    desk = Desk()
    desk.post(*map(str, range(FRAME_MESSAGES_MAX + 5)))
    desk.carry()
    assert list(map(len, desk.frames)) == [FRAME_MESSAGES_MAX, 5]


def test_frames_are_bounded_in_bytes() -> None:
    desk = Desk()
    for number in range(10):
        desk.state.add(letter(str(number), b"x" * 1_000_000), str(number))
    desk.carry()
    assert list(map(len, desk.frames)) == [5, 5]


def test_a_full_pipeline_refuses_more() -> None:
    desk = Desk()
    desk.state.add([letter("a")] * PIPELINE_MESSAGES_MAX, "many")
    with pytest.raises(errors.Overloaded, match="room"):
        desk.post("b")
    desk.carry()
    desk.post("b")


def test_a_pipeline_is_full_of_bytes_too() -> None:
    desk = Desk()
    taken = 0
    while not desk.state.full and taken < 100:
        desk.state.add(letter("a", b"x" * 1_048_576), str(taken))
        taken += 1
    assert taken == 64


def test_what_is_answered_is_known_by_number() -> None:
    desk = Desk(refusing("a"))
    desk.post("a", "b")
    seen: list[int] = []
    desk.carry(lambda: seen.append(desk.state.answered))
    assert seen == [0, 1]
    assert desk.state.answered == desk.state.taken == 2


def test_the_next_frame_is_prepared_while_one_is_under_way() -> None:
    desk = Desk()
    desk.post("a")
    later = iter([["b"], ["c", "d"], []])
    desk.carry(lambda: desk.post(*next(later)), ahead=True)
    assert desk.frames == [["a"], ["b"], ["c", "d"]]


def test_what_is_left_of_a_refused_frame_goes_before_what_was_prepared() -> None:
    desk = Desk(refusing("b"))
    desk.post("a", "b", "c")
    later = iter([["d"], ["e"], []])
    desk.carry(lambda: desk.post(*next(later)), ahead=True)
    assert desk.frames == [["a", "b", "c"], ["a", "c", "d"], ["e"]]


def test_what_was_prepared_fails_too_when_the_hub_is_unreachable() -> None:
    def judge(names: Sequence[str]) -> Receipt:
        raise errors.Unavailable("gone")

    desk = Desk(judge)
    desk.post("a")
    desk.carry(lambda: desk.post("b"), ahead=True)
    assert sorted(desk.outcomes) == ["a", "b"]
    assert desk.state.messages == 0


def test_a_frame_is_prepared_once_and_goes_as_it_was_prepared() -> None:
    desk = Desk()
    desk.post("a")
    first = desk.state.take()
    assert desk.state.prepare() is None, "nothing waits"
    desk.post("b")
    prepared = desk.state.prepare()
    desk.post("c")
    assert desk.state.prepare() is None, "one is prepared already"
    desk.state.settle(first, all_new(["a"]))
    assert desk.state.take() is prepared


def test_an_aborted_pipeline_delivers_nothing_more() -> None:
    desk = Desk()
    desk.post("a")
    load = desk.state.take()
    desk.post("b")
    desk.state.closed = desk.state.aborted = True
    finished = [desk.state.finished]
    desk.state.settle(load, all_new(["a"]))
    finished.append(desk.state.finished)
    assert finished == [False, True], "what is under way is waited for"
    assert desk.state.wait(0) is None
    desk.state.abandon(errors.Unavailable("gone"))
    assert {name: type(outcome) for name, outcome in desk.outcomes.items()} == {
        "a": Receipt,
        "b": errors.Unavailable,
    }


@pytest.mark.parametrize("sent", ["text", b"bytes", 5, [1], None, (letter("a"), "b")])
def test_only_messages_go_into_a_pipeline(sent: object) -> None:
    with pytest.raises(errors.InvalidRequest, match="Message"):
        Desk().state.add(sent, "x")


def test_a_closed_pipeline_takes_nothing() -> None:
    desk = Desk()
    desk.state.closed = True
    with pytest.raises(errors.Unavailable, match="closed"):
        desk.post("a")


# Batches.


def test_a_frame_is_of_one_batch_and_the_order_holds() -> None:
    desk = Desk()
    for name, batch in [("a", None), ("b", "one"), ("c", "one"), ("d", "two"), ("e", "one")]:
        desk.state.add(letter(name), name, batch)
    batches: list[str | None] = []
    desk.carry(seen=lambda load: batches.append(load.batch))
    assert desk.frames == [["a"], ["b", "c"], ["d"], ["e"]]
    assert batches == [None, "one", "two", "one"]


@pytest.mark.parametrize("kind", [errors.BatchSealed, errors.BatchUnknown])
def test_a_batch_that_takes_nothing_refuses_its_frame_at_once(kind: type[RestanteError]) -> None:
    def judge(names: Sequence[str]) -> Receipt:
        if names == ["d"]:
            return all_new(names)
        raise kind("it takes nothing")

    desk = Desk(judge)
    for name in "abc":
        desk.state.add(letter(name), name, "one")
    desk.state.add(letter("d"), "d", "two")
    desk.carry()
    assert desk.frames == [["a", "b", "c"], ["d"]]
    assert [type(desk.outcomes[name]) for name in "abcd"] == [kind, kind, kind, Receipt]


# Over a network.


def test_a_frame_names_its_batch() -> None:
    conversation = Conversation([json_response(numbered(1))])
    framing = Framing(conversation.terms)
    assert conversation.lead(framing.deliver(load(framing.identify([letter("a")]), "some-batch"))).accepted == 1
    assert '"batch":"some-batch"' in str(conversation.frames[0].content)


def load(messages: list[Message], batch: str | None = None) -> Load[str]:
    return Load([], messages, batch)


def numbered(number: int, accepted: int = 1) -> dict[str, object]:
    return {"number": number, "accepted": accepted, "duplicates": 0, "partitions": []}


def test_a_lost_frame_is_sent_again_as_it_was() -> None:
    conversation = Conversation([SILENT, json_response(numbered(1))])
    framing = Framing(conversation.terms)
    assert conversation.lead(framing.deliver(load(framing.identify([letter("a")])))).accepted == 1
    first, second = conversation.frames
    assert first.content == second.content
    assert len(conversation.pauses) == 1


def test_ids_stay_when_a_message_goes_into_another_frame() -> None:
    conversation = Conversation([])
    framing = Framing(conversation.terms)
    first = framing.identify([letter("a"), letter("b")])
    assert all(message.id for message in first)
    assert framing.identify(first) is first
    assert len({message.id for message in first}) == 2


def answer(value: object) -> Response:
    return read_answer(msgspec.json.encode(value))[1]


def test_an_overloaded_hub_is_given_time() -> None:
    busy = {"number": 1, "problem": {"status": 429, "code": "overloaded", "detail": "busy", "retry_after": 2}}
    conversation = Conversation([answer(busy), answer(numbered(1))])
    assert conversation.lead(Framing(conversation.terms).deliver(load([letter("a")]))).accepted == 1
    assert conversation.pauses == [2]


def test_a_problem_of_a_frame_is_its_error() -> None:
    fault = {"index": 0, "code": "message_conflict", "detail": "other content"}
    told = {"status": 409, "code": "message_conflict", "detail": "no", "errors": [fault]}
    conversation = Conversation([answer({"number": 1, "problem": told})])
    with pytest.raises(MessageConflict) as caught:
        conversation.lead(Framing(conversation.terms).deliver(load([letter("a")])))
    assert caught.value.faults[0].detail == "other content"


@pytest.mark.parametrize("strange", [SILENT, json_response({"number": 1, "accepted": 1})], ids=["silence", "half"])
def test_an_answer_that_is_none_is_no_answer(strange: Reply) -> None:
    conversation = Conversation([strange], Retrying(times=0))
    with pytest.raises(errors.Unavailable):
        conversation.lead(Framing(conversation.terms).deliver(load([letter("a")])))


def test_few_messages_are_text_and_many_are_columns() -> None:
    conversation = Conversation([json_response(numbered(1)), json_response(numbered(2, 200))])
    framing = Framing(conversation.terms)
    steps: list[LinkFrame] = []
    for count in (1, 200):
        reply: object = None
        dialogue = framing.deliver(load([letter("a")] * count))
        for _ in range(2):
            step = dialogue.send(reply)
            reply = step.function() if isinstance(step, LongWork) else None
            assert not isinstance(step, Pause)
            if isinstance(step, LinkFrame):
                steps.append(step)
                break
    assert [type(step.content) for step in steps] == [str, bytes]
