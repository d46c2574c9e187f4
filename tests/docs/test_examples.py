"""The examples of README and docs: each Python block marked `<!-- run -->` runs, and prints what is shown below it.

The marked blocks of a page are one program, run in a folder of its own. The `text` block that follows one directly shows
its output; a block without one prints nothing.
"""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
MARK = "<!-- run -->"
MARKED = re.compile(
    rf"^{re.escape(MARK)}\n```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)


class Example(NamedTuple):
    line: int
    code: str
    shown: str


def examples_of(page: Path) -> list[Example]:
    text = page.read_text(encoding="utf-8")
    return [
        Example(text.count("\n", 0, match.start("code")), match["code"], match["shown"] or "")
        for match in MARKED.finditer(text)
    ]


def run(page: Path, example: Example, namespace: dict[str, object]) -> str:
    """What it prints. Line numbers in a traceback are those of the page."""
    code = compile("\n" * example.line + example.code, page, "exec")
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if MARK in page.read_text(encoding="utf-8")], ids=lambda p: p.stem
)
def test_the_examples_of_a_page_print_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = examples_of(page)
    assert len(examples) == page.read_text(encoding="utf-8").count(MARK), "a mark stands directly before a Python block"
    namespace: dict[str, object] = {"__name__": "__main__"}
    for example in examples:
        assert run(page, example, namespace) == example.shown, f"{page.name}, line {example.line + 1}"


def test_the_readme_has_an_example() -> None:
    (example,) = examples_of(CHECKOUT / "README.md")
    assert example.shown
    assert example.code.count("\n") <= 20
