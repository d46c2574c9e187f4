# Generated from `actions_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""`hub.actions` for programs that wait: have something done, and hear what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from restante.calls.actions import GiveUpPoison, ListPoison, ReadAction, RepeatPoison, SendAction, SendActions
from restante.client.actions.wishes import wanted_of
from restante.client.batches.batch_view import BatchName, batch_id_of
from restante.client.transport.link import Link
from restante.limits import PAGE_MAX
from restante.model.actions.action_answers import AcceptedAction, ActionStatus, PoisonedAction


class Actions:
    """Actions of a hub: something to be done, addressed by name, accepted at once and answered later."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def send(
        self,
        action: str,
        *,
        concerns: str,
        data: object = None,
        id: str | None = None,
        expires_in: float | None = None,
        origin: str | None = None,
        wait: float = 0,
    ) -> ActionStatus:
        """Have an action done. What concerns one thing is done in order.

        The answer comes when the hub has accepted it; with `wait`, when its outcome is final, or after so many seconds.
        The same id again is the same action.

        ```python
        status = hub.actions.send("add_comment", concerns="item-7", data={"text": "good"}, wait=5)
        ```
        """
        wanted = wanted_of(
            {"action": action, "concerns": concerns, "data": data, "id": id, "expires_in": expires_in, "origin": origin}
        )
        return self._link.call(SendAction(wanted, wait=wait))

    def send_many(
        self, actions: Iterable[Mapping[str, object]], *, batch: BatchName | None = None
    ) -> tuple[AcceptedAction, ...]:
        """Have many actions done: all are accepted, or none. Each is a dict with the arguments of `send`.

        ```python
        hub.actions.send_many([{"action": "rate", "concerns": f"item-{n}", "data": {"stars": 5}} for n in range(3)])
        ```
        """
        wanted = tuple(wanted_of(each) for each in actions)
        return self._link.call(SendActions(wanted, batch=batch_id_of(batch))).actions

    def get(self, id: str, *, concerns: str | None = None, wait: float = 0) -> ActionStatus:
        """What became of an action; if that is not final, wait so many seconds for it.

        ```python
        status = hub.actions.get(status.id, wait=5)
        ```
        """
        return self._link.call(ReadAction(id, concerns, wait=wait))

    def poison(self, group: str) -> Iterator[PoisonedAction]:
        """What a group could not do, page by page as you go on.

        ```python
        for poisoned in hub.actions.poison("catalog"):
            print(poisoned.id, poisoned.problem.code)
        ```
        """
        after: str | None = None
        while True:
            page = self._link.call(ListPoison(group, limit=PAGE_MAX, after=after))
            yield from page.poison
            after = page.next
            if after is None:
                return

    def again(self, group: str, id: str, *, concerns: str | None = None) -> ActionStatus:
        """Have an action that is poison done again: after all that waits, with a fresh count of attempts.

        ```python
        hub.actions.again("catalog", poisoned.id)
        ```
        """
        return self._link.call(RepeatPoison(group, id, concerns))

    def give_up(self, group: str, id: str, *, concerns: str | None = None) -> None:
        """Say that an action that is poison will not be done.

        ```python
        hub.actions.give_up("catalog", poisoned.id)
        ```
        """
        self._link.call(GiveUpPoison(group, id, concerns))
