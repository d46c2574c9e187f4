"""Errors and reasons of a live connection, in words."""

from __future__ import annotations

from restante.errors import InvalidOperation, OutcomeUnknown, RestanteError, Unavailable

CLOSED = "this program has closed it"


def begins_earlier(number: int) -> str:
    return f"the hub has nothing after {number}, where it begins now: its data is older than the position asked for"


def ended() -> RestanteError:
    error = Unavailable(f"The live connection has ended: {CLOSED}. Ask the recipient for a new one.")
    error.retriable = False
    return error


def not_in_time() -> OutcomeUnknown:
    return OutcomeUnknown(
        "The hub did not say in time that the messages are collected. They may be; to say it again does no harm."
    )


def read_elsewhere() -> InvalidOperation:
    return InvalidOperation(
        "Another thread or task waits for the next message already. Ask the recipient for a live connection of your own."
    )


def unreadable(why: str) -> Unavailable:
    error = Unavailable(f"What the hub pushed cannot be read: {why}. Is it a hub of this version?")
    error.retriable = False
    return error
