"""The health tree: what each flow needs, and what was measured of every part."""

from __future__ import annotations

from collections.abc import Iterable

from restante.console.pages.frame import page
from restante.console.pages.overview import leaves, unit_of, wrong
from restante.console.pages.shown_answers import ShownHealth, ShownMeasure, ShownNode
from restante.console.view.figures import relative, short
from restante.console.view.markup import Child, Markup, tag
from restante.console.view.tables import section, state_mark, table
from restante.console.web.console_routes import ConsoleRoute
from restante.console.web.exchanges import ConsoleReply
from restante.console.web.visits import Visit

_FLOWS = {
    "publish": "Messages come in and are stored.",
    "collect": "Recipients get their messages.",
    "act": "Groups do their actions.",
    "analyse": "Jobs read along.",
}


async def health(visit: Visit) -> ConsoleReply:
    found = await visit.hub.get(ShownHealth, "health", history=True)
    parts = {leaf.name: leaf for leaf in leaves(found)}
    measured = [leaf for leaf in parts.values() if leaf.measures]
    return page(
        visit,
        "Health",
        visit.moving("wrong", wrong(found)),
        visit.moving("flows", _flows(found)),
        visit.moving("parts", _parts(measured), _unmeasured(leaf.name for leaf in parts.values() if not leaf.measures)),
    )


def _flows(found: ShownHealth) -> Markup:
    rows = [
        (tag("b", flow.name.capitalize()), state_mark(flow.state, words=True), _FLOWS.get(flow.name, ""), _needs(flow))
        for flow in found.parts
    ]
    return section("Flows, and what each needs", table(("Flow", "State", "", "Needs"), rows, caption="Flows"))


def _needs(flow: ShownNode) -> Markup:
    items = [tag("span", state_mark(part.state), part.name, class_="need") for part in flow.parts]
    return tag("span", items, class_="needs")


def _parts(measured: Iterable[ShownNode]) -> Markup:
    rows = [row for leaf in measured for row in _measures(leaf)]
    heads = ("Part", "Measure", "State", "#Now", "#Yellow", "#Red", "Since")
    return section("What was measured", table(heads, rows, caption="Measures of every part"))


def _measures(leaf: ShownNode) -> Iterable[tuple[Child, ...]]:
    for index, measure in enumerate(leaf.measures):
        name: Child = tag("b", leaf.name) if index == 0 else ""
        yield (
            name,
            _named(measure),
            state_mark(measure.state, words=True),
            f"{short(measure.value)} {unit_of(measure.unit)}",
            short(measure.yellow),
            short(measure.red),
            relative(leaf.since) if index == 0 else "",
        )


def _named(measure: ShownMeasure) -> Child:
    said = tag("div", measure.reason, class_="red") if measure.reason else None
    return measure.name.replace("_", " "), said


def _unmeasured(names: Iterable[str]) -> Markup | None:
    listed = ", ".join(names)
    return tag("p", f"Not in use, so there is nothing to measure: {listed}.", class_="soft") if listed else None


ROUTES = (ConsoleRoute("GET", "health", health, lambda visitor: visitor.reads),)
