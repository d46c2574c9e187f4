"""An app: actions by name, and the functions that do them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from restante.errors import InvalidRequest
from restante.limits import KIND_CHARACTERS_MAX
from restante.model.work.rules import (
    CONCURRENCY,
    RETRIES,
    TIMEOUT_SECONDS,
    WAIT_SECONDS,
    ActionRule,
    AfterPoison,
    WorkOrder,
    WorkPolicy,
)
from restante.work.handlers import ActionHandler

if TYPE_CHECKING:
    from restante.client.surface import asynchronous, sync
    from restante.work.sends import AppHub

P = ParamSpec("P")
T = TypeVar("T")
Hook = Callable[[], Awaitable[None] | None]


class App:
    """The handlers that a worker runs: its group has the app's name."""

    def __init__(
        self,
        name: str,
        *,
        order: WorkOrder = "thing",
        concurrency: int = CONCURRENCY,
        retries: int = RETRIES,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        """`retries` and `wait_seconds` are those of actions that say nothing else."""
        _check_name(name, "The name of an app")
        if order not in ("thing", "partition"):
            raise InvalidRequest(f'order is "thing" or "partition", not {order!r}.')
        if concurrency < 1:
            raise InvalidRequest(f"concurrency is 1 or more, not {concurrency}.")
        self.name = name
        self._rule = ActionRule(retries=retries, wait_seconds=wait_seconds)
        _check_rule(self._rule)
        self.policy = WorkPolicy(order=order, concurrency=concurrency)
        self.starting: list[Hook] = []
        self.stopping: list[Hook] = []
        self._handlers: dict[str, ActionHandler[Any, Any]] = {}
        self._hub: AppHub | None = None

    def __repr__(self) -> str:
        return f"<App {self.name!r}: {', '.join(self._handlers) or 'no actions'}>"

    @property
    def handlers(self) -> Mapping[str, ActionHandler[Any, Any]]:
        """The handlers by the names of their actions."""
        return MappingProxyType(self._handlers)

    @property
    def rules(self) -> dict[str, ActionRule]:
        return {name: handler.rule for name, handler in self._handlers.items()}

    def action(
        self,
        name: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        retries: int | None = None,
        wait_seconds: float | None = None,
        passing: tuple[type[BaseException], ...] = (),
        after_poison: AfterPoison = "go_on",
        max_per_second: float | None = None,
    ) -> Callable[[Callable[P, T]], ActionHandler[P, T]]:
        """The function does the action of this name, or of its own. `passing` are errors that may pass.

        ```python
        @app.action("send_invoice", timeout=30)
        def send_invoice(order: Order) -> None:
            post(order)
        ```
        """
        rule = ActionRule(
            retries=self._rule.retries if retries is None else retries,
            wait_seconds=self._rule.wait_seconds if wait_seconds is None else wait_seconds,
            timeout_seconds=timeout,
            after_poison=after_poison,
            max_per_second=max_per_second,
        )
        _check_rule(rule)

        def add(function: Callable[P, T]) -> ActionHandler[P, T]:
            own = name if name is not None else function.__name__
            return self._add(ActionHandler(own, function, rule, passing, lambda: self.hub))

        return add

    def _add(self, handler: ActionHandler[P, T]) -> ActionHandler[P, T]:
        _check_name(handler.name, "The name of an action")
        if handler.name in self._handlers:
            raise InvalidRequest(f"The app {self.name} has an action {handler.name} already.")
        self._handlers[handler.name] = handler
        return handler

    @property
    def hub(self) -> AppHub:
        """Where its actions are sent."""
        if self._hub is None:
            from restante.work.sends import AppHub  # noqa: PLC0415 - a client, for those who send

            self._hub = AppHub()
        return self._hub

    def connect(self, hub: str | sync.Hub | asynchronous.Hub, *, token: str | None = None) -> None:
        """Send its actions to this hub: an address, or a hub that was opened.

        ```python
        app.connect("http://127.0.0.1:8470")
        send_invoice.send(concerns="order-7", data=Order(7))
        ```
        """
        self.hub.choose(hub, token)

    def on_start(self, function: Hook) -> Hook:
        """Called before the first action: to open pools.

        ```python
        @app.on_start
        def open_pool() -> None:
            pool.open()
        ```
        """
        self.starting.append(function)
        return function

    def on_stop(self, function: Hook) -> Hook:
        """Called after the last action, the last one added first.

        ```python
        @app.on_stop
        def close_pool() -> None:
            pool.close()
        ```
        """
        self.stopping.insert(0, function)
        return function


def _check_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not name.strip() or len(name) > KIND_CHARACTERS_MAX or not name.isprintable():
        raise InvalidRequest(f"{what} is a text of 1 to {KIND_CHARACTERS_MAX} printable characters, not {name!r}.")


def _check_rule(rule: ActionRule) -> None:
    wrong = {
        "retries is 0 or more": rule.retries < 0,
        "wait_seconds is 0 or more": rule.wait_seconds < 0,
        "timeout is more than 0": rule.timeout_seconds <= 0,
        'after_poison is "go_on" or "hold"': rule.after_poison not in ("go_on", "hold"),
        "max_per_second is more than 0": rule.max_per_second is not None and rule.max_per_second <= 0,
    }
    found = [text for text, is_wrong in wrong.items() if is_wrong]
    if found:
        raise InvalidRequest("; ".join(found) + ".")
