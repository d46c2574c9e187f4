"""The things that are timed, for any peer that can do them: what is made ready, and what is measured."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from bench.mail import Mail
from bench.ours import Ours
from bench.peer import Peer, Taken
from bench.sampling import Contender, timed

Recipients = Callable[[], pa.StringArray]
WARM_UP_ROUNDS = 3


def publish(name: str, peer: Peer, mail: Mail, recipients: Recipients, count: int) -> Contender:
    """One publish of so many messages."""

    def prepare() -> object:
        peer.settle()
        return peer.prepare(mail.table(recipients(), count))

    return Contender(name, prepare, timed(peer.publish))


def publish_again(name: str, ours: Ours, mail: Mail, recipients: Recipients, count: int) -> Contender:
    """The same messages once more, right after they were stored."""

    def prepare() -> pa.Table:
        table = mail.table(recipients(), count)
        ours.publish(table)
        ours.settle()
        return table

    return Contender(name, prepare, timed(ours.publish_again))


def peek(name: str, peer: Peer, mail: Mail, count: int, *, sends: int = 1) -> Contender:
    """A fresh bundle of a full mailbox, by a hub opened since; another mailbox was peeked to warm the connection."""

    def prepare() -> str:
        recipient, other = mail.newcomer(), mail.newcomer()
        for _ in range(sends):
            peer.publish(peer.prepare(mail.table(recipient, count // sends)))
        peer.publish(peer.prepare(mail.table(other, 1)))
        if sends == 1:
            peer.settle()
        peer.reopen()
        peer.peek(str(other[0]))
        return str(recipient[0])

    def check(recipient: str) -> None:
        taken = peer.peek(recipient)
        assert taken.messages == count // sends * sends, taken.messages

    return Contender(name, prepare, timed(check))


def dequeue(name: str, peer: Peer, mail: Mail, count: int) -> Contender:
    """The bundle of so many messages that was just peeked."""

    def prepare() -> Taken:
        recipient = mail.newcomer()
        peer.publish(peer.prepare(mail.table(recipient, count)))
        peer.settle()
        taken = peer.peek(str(recipient[0]))
        assert taken.messages == count, taken.messages
        return taken

    return Contender(name, prepare, timed(peer.dequeue))


def singles(name: str, peer: Peer, mail: Mail, *, waiting: int, rounds: int) -> Contender:
    """Messages to as many recipients as wait, each published by itself."""

    def prepare() -> pa.Table:
        peer.settle()
        return mail.table(mail.newcomers(waiting), waiting * (rounds + WARM_UP_ROUNDS))

    return Contender(name, prepare, lambda table: peer.singles(table, waiting=waiting, warm_up=WARM_UP_ROUNDS))


def commit(name: str, peer: Peer) -> Contender:
    return Contender(name, peer.settle, timed(lambda _: peer.commit()))
