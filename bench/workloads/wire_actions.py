"""W24: actions that do nothing, through one worker process: how many a second, and how long each takes at 500 a second.

The actions wait while the worker is paused, and are timed from when it may begin until the last is done: each is handed out,
its handler called, its outcome stored and synced. The latency is from acceptance to done, by the hub's clock. Beside them
Celery and procrastinate, each with one worker process, where they are installed (`bench.action_peers`).
"""

from __future__ import annotations

from statistics import median

from bench.action_peers import measured_peers
from bench.action_workers import Spent, WorkedHub
from bench.outcome import Figure, Goal, Line, Outcome, Unit, faster
from bench.wire import WireBench

WHAT, LATENCY = "W24 actions a second, one worker", "W24 acceptance to done at 500/s"
AT_LEAST = 5_000
LATENCY_MAX = 0.020
RATE = 500.0


def run(bench: WireBench) -> Outcome:
    scale = bench.scale
    with WorkedHub(bench.fresh_folder()) as worked:
        worked.work_off(min(scale.actions, 1_000))
        found = [worked.work_off(scale.actions) for _ in range(scale.action_repetitions)]
        taken = worked.latencies(scale.actions_paced, rate=RATE)
    rates = tuple(scale.actions / one.seconds for one in found)
    ours = Figure(median(rates), Unit.RATE, "restante", rates)
    middle = Figure(taken[len(taken) // 2], Unit.SECONDS, "restante")
    lines = [
        Line(WHAT, ours, goal=Goal(f"≥ {AT_LEAST:,}/s", at_least=AT_LEAST, of_value=True)),
        Line(LATENCY, middle, goal=Goal("≤ 20 ms", at_most=LATENCY_MAX, of_value=True)),
    ]
    peers, notes = measured_peers(bench, scale.actions, scale.action_repetitions)
    lines += [faster(WHAT, ours, peer) for peer in peers]
    figures = [(WHAT, ours), (LATENCY, middle), *((WHAT, peer) for peer in peers)]
    return Outcome(lines, figures=figures, notes=[_told(found, scale.actions), _tails(taken), *notes])


def _told(found: list[Spent], count: int) -> str:
    hub, worker = median(one.hub for one in found), median(one.worker for one in found)
    return f"processor time of an action: hub {hub / count * 1e6:,.0f} µs, worker {worker / count * 1e6:,.0f} µs"


def _tails(taken: list[float]) -> str:
    p90, p99 = (taken[int(len(taken) * share)] * 1e3 for share in (0.9, 0.99))
    return f"acceptance to done at 500/s: p90 {p90:,.1f} ms, p99 {p99:,.1f} ms"
