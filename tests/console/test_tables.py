"""Tables: what a cell holds decides whether its column may be narrow."""

from __future__ import annotations

import pytest

from restante.console.view.markup import Child, tag
from restante.console.view.tables import table

KINDS: dict[str, tuple[Child, str | None]] = {
    "a word": ("waiting", None),
    "a moment": (tag("time", "12 min ago", datetime="2030-01-31T12:00:00.123456+00:00"), None),
    "some words": ("every origin, and one more", "text"),
    "a long name": (tag("a", "x" * 30, href="/console/recipients/x"), "name"),
    "a sentence": ("could not be reached: nobody answered in time, or its address is not public", "words"),
    "what is folded": (tag("details", tag("summary", "Show"), tag("pre", "long " * 100)), None),
    "a drawing": (tag("svg", tag("title", "said of it " * 10)), None),
}


@pytest.mark.parametrize("what", KINDS)
def test_a_long_cell_has_several_lines_and_a_column_that_is_not_narrow(what: str) -> None:
    cell, kind = KINDS[what]
    drawn = table(("Name",), [(cell,)]).text
    assert ("<td>" if kind is None else f'<td class="{kind}">') in drawn


def test_numbers_are_aligned_whatever_they_say() -> None:
    assert (
        '<td class="number">0 per minute, and never more</td>'
        in table(("#Now",), [("0 per minute, and never more",)]).text
    )
