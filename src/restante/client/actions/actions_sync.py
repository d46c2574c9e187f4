# Generated from `actions_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""The poison of a group for programs that wait: what it could not do, done again or given up."""

from __future__ import annotations

from collections.abc import Iterator

from restante.calls.actions import GiveUpPoison, ListPoison, RepeatPoison
from restante.client.actions.action_view import concerns_of
from restante.client.surface.arguments import text_of
from restante.client.surface.pages_sync import every
from restante.client.transport.link import Link
from restante.limits import PAGE_MAX
from restante.model.actions.action_answers import ActionStatus, PoisonedAction


def list_poison(link: Link, group: str) -> Iterator[PoisonedAction]:
    """List the poisoned actions by partition and number; pages are read as the caller goes on."""
    return every(link, ListPoison(group, limit=PAGE_MAX), lambda page: page.poison)


def repeat_poison(link: Link, group: str, action_id: object, concerns: object) -> ActionStatus:
    return link.call(RepeatPoison(group, text_of("id", action_id), concerns_of(concerns)))


def give_up_poison(link: Link, group: str, action_id: object, concerns: object) -> None:
    link.call(GiveUpPoison(group, text_of("id", action_id), concerns_of(concerns)))
