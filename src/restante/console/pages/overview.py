"""The overview: what is wrong first, then what goes through the hub, and where most waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from restante.console.pages.batches import batch_rows
from restante.console.pages.frame import page
from restante.console.pages.jobs import failing
from restante.console.pages.nodes import ailing, unserved
from restante.console.pages.shown_answers import (
    ShownHealth,
    ShownMeasure,
    ShownNode,
    ShownNodeMap,
    ShownRates,
    ShownRecipients,
)
from restante.console.view.figures import relative, short, whole
from restante.console.view.markup import Child, Markup, at, link, tag
from restante.console.view.plots import PlotValues, line_plot, max_of, minute_strip
from restante.console.view.tables import note, on_its_way, section, state_mark, table
from restante.console.web.console_routes import ConsoleRoute
from restante.console.web.exchanges import ConsoleReply, redirect
from restante.console.web.slow_answers import Remembered
from restante.console.web.visits import Visit
from restante.model.batches.batch_answers import BatchPage
from restante.model.jobs.job_answers import JobPage

_TOP = 8
_COUNTED = ("messages", "clients")
"""Units of which there may be one."""


async def overview(visit: Visit) -> ConsoleReply:
    """The overview; a visitor who may not see it gets the first page that they may see."""
    if not visit.visitor.reads:
        return redirect(_elsewhere(visit))
    shards = await visit.hub.maybe(ShownNodeMap, "nodes") if visit.extras.nodes else None
    if shards is not None and unserved(shards):
        return _without_figures(visit, shards)
    rates, health, most, oldest, batches, jobs = await asyncio.gather(
        visit.hub.get(ShownRates, "rates"),
        visit.hub.maybe(ShownHealth, "health", history=True),
        _recipients(visit, "waiting"),
        _recipients(visit, "oldest"),
        visit.hub.maybe(BatchPage, "batches", state="sealed", limit=5),
        _jobs(visit),
    )
    return page(
        visit,
        "Overview",
        visit.moving("wrong", None if shards is None else ailing(shards), _failing_jobs(jobs), wrong(health)),
        visit.moving("flow", _tiles(rates)),
        visit.moving("health", _hour(health)),
        tag(
            "div",
            _top(visit, "most", "Most waiting", most),
            _top(visit, "oldest", "Waiting longest", oldest),
            class_="pair",
        )
        if visit.visitor.operates
        else None,
        _open_batches(visit, batches),
    )


def _without_figures(visit: Visit, shards: ShownNodeMap) -> ConsoleReply:
    """Figures are of all shards. While one does not serve there are none, and what is wrong is all the more to be seen."""
    told = tag("p", "Figures are of all shards: they come back when each serves. ", link("Nodes and shards", "nodes"))
    return page(
        visit,
        "Overview",
        visit.moving("wrong", ailing(shards)),
        visit.moving("flow", told),
        visit.moving("health", None),
    )


def _elsewhere(visit: Visit) -> str:
    if visit.visitor.opens:
        return at("recipients")
    return at("batches") if visit.visitor.looks else at("groups")


async def _recipients(visit: Visit, order: str) -> Remembered[ShownRecipients] | None:
    if not visit.visitor.operates:
        return None
    return await visit.remembered(ShownRecipients, "recipients", order=order, limit=_TOP)


# --- Problems


async def _jobs(visit: Visit) -> JobPage | None:
    return await visit.hub.maybe(JobPage, "jobs", limit=visit.rows) if visit.extras.jobs else None


def _failing_jobs(found: JobPage | None) -> Markup | None:
    """Jobs whose last run failed, or of which nothing is heard."""
    items = [
        tag("li", state_mark("red"), link(one.job, "jobs", one.job), tag("span", text[:300]))
        for one, text in ([] if found is None else failing(found.jobs))
    ]
    return note("warn", tag("ul", items, class_="wrong"), title="Jobs that need a look") if items else None


def unwell(node: ShownNode) -> Iterator[tuple[ShownNode, ShownMeasure]]:
    """Each measure that is beyond its bounds, once, the worst first."""
    found: dict[tuple[str, str], tuple[ShownNode, ShownMeasure]] = {}
    for leaf in leaves(node):
        for measure in leaf.measures:
            if measure.state != "green":
                found.setdefault((leaf.name, measure.name), (leaf, measure))
    yield from sorted(found.values(), key=lambda pair: (pair[1].state != "red", pair[0].name))


def leaves(node: ShownNode) -> Iterator[ShownNode]:
    if not node.parts:
        yield node
    for part in node.parts:
        yield from leaves(part)


def wrong(health: ShownHealth | None) -> Markup:
    if health is None:
        return note("plain", "The first round of checks has not ended yet.")
    found = list(unwell(health))
    if not found:
        return note(
            "good", "Every part of the hub is well", tag("span", " since ", relative(health.since), class_="soft")
        )
    tone = "bad" if health.state == "red" else "warn"
    items = [
        tag(
            "li",
            state_mark(measure.state),
            tag("b", leaf.name),
            " ",
            measure_text(measure),
            tag("span", " since ", relative(leaf.since), class_="soft"),
        )
        for leaf, measure in found
    ]
    return note(tone, tag("ul", items, class_="wrong"), title="What is wrong")


def measure_text(measure: ShownMeasure) -> Child:
    name = measure.name.replace("_", " ")
    if measure.reason is not None:
        return f"{name}: {measure.reason}"
    return f"{name} {short(measure.value)} {unit_of(measure.unit)} (red from {short(measure.red)})"


def unit_of(unit: str) -> str:
    return {"per_minute": "per minute", "percent": "%", "count": ""}.get(unit, unit)


# --- Throughput


def _tiles(rates: ShownRates) -> Markup:
    per_second = [
        _per_second(column, rates.seconds)
        for column in (rates.accepted, rates.collected, rates.commits, rates.requests)
    ]
    accepted, collected, commits, requests = per_second
    return tag(
        "div",
        _tile(rates, "Messages in", accepted, "per s", f"{whole(sum(rates.accepted))} in the last hour"),
        _tile(rates, "Collected", collected, "per s", f"{whole(sum(rates.collected))} in the last hour"),
        _tile(rates, "Waiting", rates.waiting, "messages", f"at most {short(max_of(rates.waiting))} in the last hour"),
        _tile(rates, "Commits", commits, "per s", f"{whole(sum(rates.commits))} in the last hour"),
        _tile(rates, "Commit latency", rates.commit_ms, "ms", _most(rates.commit_ms, "commit")),
        _tile(
            rates,
            "Requests",
            requests,
            "per s",
            f"{whole(sum(rates.requests))} in the last hour, {whole(sum(rates.failures))} failed",
        ),
        _tile(rates, "Request latency", rates.request_ms, "ms", _most(rates.request_ms, "request")),
        _tile(rates, "Live connections", rates.connections, "clients", f"at most {short(max_of(rates.connections))}"),
        class_="tiles",
    )


def _most(values: PlotValues, what: str) -> str:
    if all(value is None for value in values):
        return f"no {what} in the last hour"
    return f"at most {short(max_of(values))} ms"


def _per_second(column: Sequence[int], seconds: float) -> list[float]:
    return [count / seconds for count in column]


def _tile(rates: ShownRates, label: str, values: PlotValues, unit: str, below: str) -> Markup:
    latest = next((value for value in reversed(values) if value is not None), None)
    shown = "–" if latest is None else short(latest)
    unit = unit.removesuffix("s") if shown == "1" and unit in _COUNTED else unit
    return tag(
        "section",
        tag("h2", label),
        tag("p", tag("span", shown, class_="figure"), " ", tag("span", unit, class_="unit"), class_="now"),
        line_plot(rates.at, values, label=label, unit=unit),
        tag("p", below, class_="soft"),
        class_="tile panel",
    )


def _hour(health: ShownHealth | None) -> Markup | None:
    if health is None:
        return None
    minutes = [
        (minute.state, f"{minute.at:%H:%M} UTC: {', '.join((*minute.red, *minute.yellow)) or 'all well'}")
        for minute in health.history
    ]
    score = "–" if health.score is None else f"{100 * health.score:.0f} %"
    strip = minute_strip(minutes, label=f"Health of the last {len(minutes)} minutes, now {health.state}")
    aside = (
        state_mark(health.state, words=True),
        tag("span", "score ", tag("b", score), class_="soft"),
        link("The tree", "health"),
    )
    return section("Health, minute by minute", strip, aside=aside)


# Where most waits


def _top(visit: Visit, name: str, title: str, found: Remembered[ShownRecipients] | None) -> Markup:
    order = "oldest" if name == "oldest" else "waiting"
    inner = on_its_way() if found is None else _top_rows(found.answer, title)
    counted_at = None if found is None else tag("span", "counted ", relative(found.came_at), class_="soft")
    aside = counted_at, link("All", "recipients", order=order)
    return visit.moving(name, section(title, inner, aside=aside))


def _top_rows(found: ShownRecipients, title: str) -> Markup:
    rows = [
        (link(one.recipient, "recipients", one.recipient), whole(one.waiting), relative(one.oldest))
        for one in found.recipients
    ]
    return table(("Recipient", "#Waiting", "Oldest"), rows, empty="Nobody has waiting messages.", caption=title)


def _open_batches(visit: Visit, batches: BatchPage | None) -> Markup | None:
    if batches is None or not batches.batches:
        return None
    return section(
        "Batches under way", visit.moving("batches", batch_rows(batches.batches)), aside=link("All", "batches")
    )


ROUTES = (ConsoleRoute("GET", "", overview, lambda _: True),)
