"""`restante sources`: how far sources are stored, and what operators do about them."""

from __future__ import annotations

import pytest

from tests.cli.places import Place


@pytest.fixture
def filled(place: Place) -> Place:
    """A hub with two sources."""
    with place.opened() as hub:
        for source in ("orders/0", "orders/1"):
            hub.send([{"recipient": "ada", "data": n, "source_position": n} for n in (3, 5, 9)], source=source)
    return place


def test_sources_are_listed_and_shown(filled: Place) -> None:
    listed = filled.answer("sources list")["sources"]
    assert [(one["source"], one["position"], one["messages"]) for one in listed] == [
        ("orders/0", 9, 3),
        ("orders/1", 9, 3),
    ]
    assert "orders/1" in filled.run("sources list").stdout
    (own,) = filled.answer("sources show", "orders/0")["positions"]
    assert (own["position"], own["messages"]) == (9, 3)
    assert "stored up to" in filled.run("sources show", "orders/0").stdout
    assert filled.run("sources show", "nothing").exit_code == 1


def test_a_source_is_reset_and_deleted(filled: Place) -> None:
    assert filled.answer("sources reset", "orders/0", "--to", "5", "--dry-run")["position"] == 9
    assert filled.answer("sources reset", "orders/0", "--to", "5", "--yes")["position"] == 5
    assert filled.answer("sources reset", "orders/0", "--to", "beginning", "--yes")["position"] is None
    assert filled.run("sources reset", "orders/0", "--to", "-4", "--yes").exit_code == 2
    assert filled.run("sources delete", "orders/0", "--dry-run").exit_code == 0
    assert filled.answer("sources delete", "orders/0", "--yes")["deleted"]
    assert [one["source"] for one in filled.answer("sources list")["sources"]] == ["orders/1"]
