"""The notebook of the examples: its cells run one after the other, in one namespace, as a reader would run them."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from tests.spark.served import SparkHub

BOOK = Path(__file__).parents[2] / "examples" / "nightly_run.ipynb"
PNG = b"\x89PNG\r\n\x1a\n"


def cells() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(BOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


def value_of(cell: dict[str, Any], namespace: dict[str, object]) -> object:
    """Run a cell; its value is that of its last line, if that is an expression."""
    tree = ast.parse("".join(cell["source"]), cell["id"])
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, cell["id"], "exec"), namespace)
        return None
    tree.body.pop()
    exec(compile(tree, cell["id"], "exec"), namespace)
    return eval(compile(ast.Expression(last.value), cell["id"], "eval"), namespace)


@pytest.fixture
def plots() -> Iterator[None]:
    """On no screen, and closed in the end."""
    before = mpl.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


@pytest.mark.timeout(900)  # a machine with much else to do takes minutes
@pytest.mark.usefixtures("spark", "plots")
def test_the_notebook_tells_a_whole_night(
    hub: SparkHub, tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RESTANTE_HUB", hub.url)
    monkeypatch.setenv("NIGHTLY_RUN_TABLES", tables)
    namespace: dict[str, object] = {"__name__": "__main__"}
    values = {cell["id"]: value_of(cell, namespace) for cell in cells()}
    assert values["deliver"] == 50 * 24
    assert values["collect"] == [("actor-13", 24), ("actor-23", 24), ("actor-42", 24)]
    figures: Any = values["store"]
    assert (figures["messages"], figures["deliveries"]) == (50 * 24, 47 * 24)
    report: Any = values["report"]
    assert set(report["recipient"][:3]) == {"actor-13", "actor-23", "actor-42"}
    assert (tmp_path / "nightly_run.png").read_bytes().startswith(PNG)
    assert values["end"] == "complete"


def test_the_notebook_is_kept_without_what_it_printed() -> None:
    assert [cell["id"] for cell in cells() if cell["outputs"] or cell["execution_count"] is not None] == []
