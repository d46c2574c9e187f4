"""What a bridge has done, in a line and as metrics."""

from __future__ import annotations

import urllib.request

from bench.server import free_port
from restante.bridges.bridge_counts import BridgeCounts, metrics_served


def test_a_line_says_what_happened_and_leaves_out_what_did_not() -> None:
    counts = BridgeCounts()
    counts.add(records=1_200, stored=1_100, skipped=100)
    counts.lags["t/0"] = 7
    line = counts.line()
    assert line.startswith("1,200 records (")
    assert line.endswith("/s), 1,100 stored, 100 skipped, lag 7")


def test_counts_and_lags_are_metrics_while_they_are_served() -> None:
    counts, port = BridgeCounts(), free_port()
    with metrics_served(counts, port, "in"):
        counts.add(records=3, stored=2, poisoned=1)
        counts.lags.update({"t/0": 5, "t/1": 0})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
    assert 'restante_bridge_records_total{direction="in"} 3.0' in lines
    assert 'restante_bridge_poisoned_total{direction="in"} 1.0' in lines
    assert 'restante_bridge_lag{direction="in",source="t/0"} 5.0' in lines
