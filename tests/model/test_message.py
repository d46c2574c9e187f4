"""What a message shows of itself."""

from __future__ import annotations

from restante.model.publishing.message import Message


def test_a_message_shows_what_it_says_and_no_defaults() -> None:
    assert repr(Message(recipient="anna", data={"a": 1})) == "Message(recipient='anna', data={'a': 1})"
    assert repr(Message(recipient="anna", kind="x", properties={"p": "q"})) == (
        "Message(recipient='anna', kind='x', properties={'p': 'q'})"
    )


def test_a_message_of_megabytes_is_shown_in_a_line() -> None:
    for data in (bytes(2**20), "x" * 2**20, {"a": "x" * 2**20}):
        assert len(repr(Message(recipient="anna", data=data))) < 1000
    assert "(1048576 in all)" in repr(Message(recipient="anna", data=bytes(2**20)))
