"""The poison of a group for asynchronous programs: what it could not do, done again or given up."""

from __future__ import annotations

from collections.abc import AsyncIterator

from restante.calls.actions import GiveUpPoison, ListPoison, RepeatPoison
from restante.client.actions.action_view import concerns_of
from restante.client.surface.arguments import text_of
from restante.client.surface.pages_async import every
from restante.client.transport.link import AsyncLink
from restante.limits import PAGE_MAX
from restante.model.actions.action_answers import ActionStatus, PoisonedAction


def list_poison(link: AsyncLink, group: str) -> AsyncIterator[PoisonedAction]:
    """List the poisoned actions by partition and number; pages are read as the caller goes on."""
    return every(link, ListPoison(group, limit=PAGE_MAX), lambda page: page.poison)


async def repeat_poison(link: AsyncLink, group: str, action_id: object, concerns: object) -> ActionStatus:
    return await link.call(RepeatPoison(group, text_of("id", action_id), concerns_of(concerns)))


async def give_up_poison(link: AsyncLink, group: str, action_id: object, concerns: object) -> None:
    await link.call(GiveUpPoison(group, text_of("id", action_id), concerns_of(concerns)))
