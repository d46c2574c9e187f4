"""The tutorial "A nightly run in ten minutes": its blocks run one after the other, and print what it shows.

It starts a hub as it says, on a free port. Its Spark is the session of all tests, which `restante.spark.session()` finds.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_examples import MARK, MARKED, Example, Session, commands_of

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "nightly-run.md"
SPARK_MARK = "<!-- run with spark -->"


def blocks() -> list[Example]:
    """As those of other pages are found, under the mark of those that need Spark."""
    text = PAGE.read_text(encoding="utf-8")
    pattern = MARKED.pattern.replace(re.escape(MARK), re.escape(SPARK_MARK))
    found = [
        Example(text.count("\n", 0, match.start("code")), match["kind"], match["code"], match["shown"] or "")
        for match in re.finditer(pattern, text, MARKED.flags)
    ]
    assert len(found) == text.count(SPARK_MARK) > 0, "a mark stands directly before its block"
    return found


def printed(session: Session, block: Example) -> list[tuple[str, str]]:
    """What it prints, and what the page says that it prints; of a console block for each command."""
    if block.kind == "python":
        return [(session.python(block), block.shown)]
    return [(session.console(command), shown) for command, shown in commands_of(block.code)]


@pytest.mark.usefixtures("spark")
def test_the_tutorial_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session(PAGE, tmp_path)
    try:
        for block in blocks():
            for got, shown in printed(session, block):
                assert session.shown(got) == session.shown(shown), f"{PAGE.name}, line {block.line + 1}"
    finally:
        session.close()


def test_the_tutorial_shows_what_its_blocks_print() -> None:
    assert [block.line + 1 for block in blocks() if "print(" in block.code and not block.shown] == []
