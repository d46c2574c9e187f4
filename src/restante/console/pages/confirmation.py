"""The two steps of a change: it is shown first as what it would do, and done when the visitor has typed its name."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlencode

from restante.console.pages.changes import CHANGES, ConsoleChange, Prospect, said
from restante.console.pages.frame import form, page
from restante.console.view.markup import Markup, at, clean, tag
from restante.console.view.tables import note
from restante.console.web.console_routes import ConsoleRoute
from restante.console.web.exchanges import ConsoleReply, redirect
from restante.console.web.visits import Visit
from restante.errors import Forbidden, NotFound, RestanteError, Unauthenticated
from restante.wire.problems import status_of


def _change(visit: Visit) -> ConsoleChange:
    change = CHANGES.get(visit.place["change"])
    if change is None or not change.may(visit.visitor):
        raise NotFound("There is no such change, or your token may not make it.")
    return change


async def consider(visit: Visit) -> ConsoleReply:
    """The dry run, and the form that confirms it."""
    change = _change(visit)
    told = said(change, dict(visit.request.query))
    return _confirm(visit, change, told, await change.look(visit, told))


async def carry_out(visit: Visit) -> ConsoleReply:
    """Do it, if the name was typed; else ask once more."""
    change = _change(visit)
    told = said(change, dict(visit.request.form))
    prospect = await change.look(visit, told)
    if visit.request.form.get("again") or visit.request.form.get("counted", "") != _counted(change, told):
        return _confirm(visit, change, told, prospect)
    if not is_typed(visit.request.form.get("typed", ""), prospect.typed):
        return _confirm(visit, change, told, prospect, _NOT_TYPED)
    try:
        count = await change.act(visit, told)
    except (Unauthenticated, Forbidden):
        raise
    except RestanteError as error:
        return _confirm(visit, change, told, prospect, _Refusal(error.message, status_of(error.code)))
    name = visit.place["change"]
    target = _GONE_TO.get(name) or prospect.back
    return redirect(f"{target}?done={name}" + ("" if count is None else f"&count={count}"))


def is_typed(given: str, name: str) -> bool:
    """Whether a name was typed, or copied, as the page shows it: characters that no page may hold are shown otherwise."""
    return clean(given).strip() == clean(name).strip()


_GONE_TO = {"delete-group": at("groups"), "delete-batch": at("batches"), "forget-job": at("jobs")}
"""Where a change leads that leaves nothing to go back to."""


class _Refusal(NamedTuple):
    """The reason why a change was not made, and the status of the answer."""

    text: str
    status: int


_NOT_TYPED = _Refusal("That is not the name. Nothing was changed.", 422)


def _confirm(
    visit: Visit, change: ConsoleChange, told: dict[str, str], prospect: Prospect, refusal: _Refusal | None = None
) -> ConsoleReply:
    shown = () if prospect.fields is None else change.optional
    hidden = [tag("input", type="hidden", name=name, value=value) for name, value in told.items() if name not in shown]
    hidden.append(tag("input", type="hidden", name="counted", value=_counted(change, told)))
    tone = "warn" if change.danger and not prospect.vain else "plain"
    typed = None if prospect.vain else _typed(change, prospect)
    nothing = note("plain", "There is nothing to change.") if prospect.vain else None
    body = form(visit, ("do", visit.place["change"]), hidden, prospect.fields, typed, class_="confirm panel")
    problem = note("bad", refusal.text) if refusal else None
    back = tag("p", tag("a", "Back" if prospect.vain else "Cancel: change nothing", href=prospect.back))
    effect = note(
        tone,
        tag("p", prospect.effect),
        tag("p", prospect.hint, class_="soft") if prospect.hint and not prospect.vain else None,
        title="What it would do",
    )
    return page(visit, prospect.title, problem, effect, nothing, body, back, status=refusal.status if refusal else 200)


def _counted(change: ConsoleChange, told: dict[str, str]) -> str:
    """The fields for which the numbers were shown: if something else is sent, they are shown again before anything is done."""
    return urlencode([(name, told[name]) for name in change.optional if name in told])


def _typed(change: ConsoleChange, prospect: Prospect) -> Markup:
    field = tag(
        "input",
        type="text",
        name="typed",
        id="typed",
        required=True,
        autocomplete="off",
        spellcheck="false",
        data_typed=prospect.typed,
    )
    label = tag("label", "To confirm, type ", tag("code", prospect.typed), for_="typed")
    button = tag("button", change.label, class_="danger" if change.danger else "primary", type="submit")
    return tag("div", label, field, button, class_="typed")


ROUTES = (
    ConsoleRoute("GET", "do/{change}", consider, lambda _: True),
    ConsoleRoute("POST", "do/{change}", carry_out, lambda _: True),
)
