"""Handlers: the functions of an app, with what they take and how they are tried."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import msgspec

from restante.errors import InvalidRequest
from restante.model.work.rules import ActionRule
from restante.work.bodies import BodyType, encode_body
from restante.work.job import ActionJob

if TYPE_CHECKING:
    from restante.calls.actions import SendAction
    from restante.model.actions.action_answers import ActionStatus
    from restante.work.sends import SendsActions

P = ParamSpec("P")
T = TypeVar("T")


class ActionRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An action to be asked for, as `POST /v1/actions` takes it."""

    action: str
    concerns: str
    data: msgspec.Raw = msgspec.Raw(b"{}")
    id: str | None = None
    expires_in: float | None = None
    origin: str | None = None


class ActionHandler(Generic[P, T]):
    """A function that does an action. It can still be called as it was written."""

    def __init__(
        self,
        name: str,
        function: Callable[P, T],
        rule: ActionRule,
        passing: tuple[type[BaseException], ...],
        hub: Callable[[], SendsActions],
    ) -> None:
        self.name = name
        self.function = function
        self.rule = rule
        self.passing = passing
        """Errors that may pass, beside those that always may."""
        self._hub = hub
        self.is_async = inspect.iscoroutinefunction(function)
        self.body, self.body_name, self.job_name = _parameters(name, function)
        self.__name__ = getattr(function, "__name__", name)
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<ActionHandler of {self.name!r}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.function(*args, **kwargs)

    def arguments(self, data: bytes, job: ActionJob) -> dict[str, Any]:
        """The arguments that the function is called with; the body is checked."""
        given: dict[str, Any] = {}
        if self.body is not None and self.body_name is not None:
            given[self.body_name] = self.body.decode(data)
        if self.job_name is not None:
            given[self.job_name] = job
        return given

    def request(
        self,
        *,
        concerns: str,
        data: object = None,
        id: str | None = None,
        expires_in: float | None = None,
        origin: str | None = None,
    ) -> ActionRequest:
        """The request for this action; data that the handler would not take is refused here.

        ```python
        run(app, [send_invoice.request(concerns="order-7", data=Order(7))])
        ```
        """
        encoded = b"{}" if data is None and (self.body is None or not self.body.takes_null) else encode_body(data)
        if self.body is not None:
            self.body.decode(encoded)
        return ActionRequest(
            action=self.name,
            concerns=concerns,
            data=msgspec.Raw(encoded),
            id=id,
            expires_in=expires_in,
            origin=origin,
        )

    def send(
        self,
        *,
        concerns: str,
        data: object = None,
        id: str | None = None,
        expires_in: float | None = None,
        origin: str | None = None,
        wait: float = 0,
    ) -> ActionStatus:
        """Have it done: the answer comes when the hub has accepted it, or within `wait` seconds with its outcome.

        Data that the handler would not take is refused here. The hub is the one of `app.connect(…)`, else of the
        environment's `RESTANTE_HUB`; in a handler, the worker's own. `send_async` is the same for asynchronous programs.

        ```python
        status = send_invoice.send(concerns="order-7", data=Order(7), wait=10)
        print(status.state)
        ```
        """
        request = self.request(concerns=concerns, data=data, id=id, expires_in=expires_in, origin=origin)
        return self._hub().send(_call_of(request, wait))

    async def send_async(
        self,
        *,
        concerns: str,
        data: object = None,
        id: str | None = None,
        expires_in: float | None = None,
        origin: str | None = None,
        wait: float = 0,
    ) -> ActionStatus:
        """As `send`, for asynchronous programs.

        ```python
        status = await send_invoice.send_async(concerns="order-7", data=Order(7))
        ```
        """
        request = self.request(concerns=concerns, data=data, id=id, expires_in=expires_in, origin=origin)
        return await self._hub().send_async(_call_of(request, wait))


def _call_of(request: ActionRequest, wait: float) -> SendAction:
    from restante.calls.actions import SendAction  # noqa: PLC0415 - a client, for those who send
    from restante.model.actions.wanted_action import WantedAction  # noqa: PLC0415
    from restante.work.sends import carried  # noqa: PLC0415

    wanted = WantedAction(
        action=request.action,
        concerns=request.concerns,
        data=bytes(request.data),
        id=request.id,
        expires_in=request.expires_in,
        origin=request.origin,
    )
    return SendAction(wanted, wait=wait, carried=carried())


def _parameters(name: str, function: Callable[..., object]) -> tuple[BodyType | None, str | None, str | None]:
    """The type and the name of the body that a function takes, and the name of its job; at most one of each."""
    hints = typing.get_type_hints(function)
    body: tuple[BodyType | None, str | None] = (None, None)
    job: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise InvalidRequest(
                f"The handler of {name} takes {parameter.name} in a way that cannot be filled by name."
            )
        kind = hints.get(parameter.name, Any)
        if kind is ActionJob and job is None:
            job = parameter.name
        elif body[1] is None:
            body = (_body_type(name, kind), parameter.name)
        elif parameter.default is parameter.empty:
            raise InvalidRequest(f"The handler of {name} takes more than a body and a Job: {parameter.name}.")
    return (*body, job)


def _body_type(name: str, annotation: Any) -> BodyType:  # noqa: ANN401 - what annotations are
    try:
        return BodyType(types.NoneType if annotation is None else annotation)
    except TypeError as error:
        raise InvalidRequest(f"The handler of {name} takes a body of a type that JSON cannot be: {error}.") from error
