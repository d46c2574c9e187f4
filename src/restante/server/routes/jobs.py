"""Jobs: programs report their runs, and everybody who may read along sees them."""

from __future__ import annotations

from restante.calls.call import Home, query_names
from restante.calls.jobs import DeleteJob, ListJobs, ListRuns, ReadJob, ReadRun, ReportJob
from restante.errors import InvalidRequest
from restante.model.access.access import Role
from restante.server.connections.bodies import read_nothing, read_request
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.requests.call_bodies import body_of
from restante.server.requests.options import asked
from restante.server.route_table import Route

_NO_STORE = ((b"cache-control", b"no-store"),)
_JOB = "/v1/jobs/{job}"
_RUN_DIGITS_MAX = 18


REPORT_BODY = body_of(
    ReportJob,
    "ReportJobBody",
    "When the job runs, and what became of a run. What is left out of `schedule` stays as it was.",
    given=("job",),
)


async def jobs(desk: Desk, exchange: Exchange) -> None:
    await exchange.json(200, await desk.call(asked(exchange, ListJobs), exchange.grant), headers=_NO_STORE)


async def show(desk: Desk, exchange: Exchange) -> None:
    call = ReadJob(exchange.place["job"])
    await exchange.json(200, await desk.call(call, exchange.grant), headers=_NO_STORE)


async def report(desk: Desk, exchange: Exchange) -> None:
    sent = await read_request(desk, exchange, REPORT_BODY.shape)
    call = REPORT_BODY.call(exchange, sent, job=exchange.place["job"])
    await exchange.json(200, await desk.call(call, exchange.grant), headers=_NO_STORE)


async def runs(desk: Desk, exchange: Exchange) -> None:
    call = asked(exchange, ListRuns, job=exchange.place["job"])
    await exchange.json(200, await desk.call(call, exchange.grant), headers=_NO_STORE)


async def run(desk: Desk, exchange: Exchange) -> None:
    call = ReadRun(exchange.place["job"], _number(exchange.place["run"]))
    await exchange.json(200, await desk.call(call, exchange.grant), headers=_NO_STORE)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _RUN_DIGITS_MAX):
        raise InvalidRequest(f"A run has a number, not {text[:40]!r}.", parameter="run")
    return int(text)


async def delete(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    await desk.call(DeleteJob(exchange.place["job"]), exchange.grant)
    await exchange.answer(204)


_RUNNING = frozenset({Role.PUBLISHER, Role.READER, Role.WORKER})
_OPERATING = frozenset({Role.OPERATOR})

ROUTES = (
    Route("GET", "/v1/jobs", jobs, _RUNNING, query_names(ListJobs), home=Home.FIRST),
    Route("GET", _JOB, show, _RUNNING, home=Home.FIRST),
    Route("PUT", _JOB, report, _RUNNING, home=Home.FIRST),
    Route("GET", _JOB + "/runs", runs, _RUNNING, query_names(ListRuns), home=Home.FIRST),
    Route("GET", _JOB + "/runs/{run}", run, _RUNNING, home=Home.FIRST),
    Route("DELETE", _JOB, delete, _OPERATING, home=Home.FIRST),
)
