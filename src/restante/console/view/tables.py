"""Tables, lists of facts, badges, notes and bars."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from restante.console.view.figures import short
from restante.console.view.markup import Child, Markup, join, tag

_NOT_SHOWN = re.compile(r"<pre.*?</pre>|<svg.*?</svg>|<[^>]*>", re.DOTALL)
_LINE_CHARACTERS = 16
_WORD_CHARACTERS = 24
_WORDS_CHARACTERS = 48

_MARKS = {"green": "●", "yellow": "▲", "red": "■"}
_WORDS = {"green": "well", "yellow": "strained", "red": "failing"}
_TONES = {
    "waiting": "blue",
    "open": "blue",
    "collected": "green",
    "complete": "green",
    "committed": "green",
    "valid": "green",
    "delivered": "green",
    "sealed": "blue",
    "set_aside": "yellow",
    "delayed": "yellow",
    "paused": "yellow",
    "pending": "yellow",
    "expired": "grey",
    "withdrawn": "grey",
    "discarded": "grey",
    "revoked": "grey",
    "poisoned": "red",
    "done": "green",
    "accepted": "blue",
    "under_way": "blue",
    "failed": "red",
    "running": "blue",
    "stopped": "grey",
    "silent": "yellow",
    "serving": "green",
    "draining": "yellow",
    "loading": "blue",
    "moving": "blue",
    "in_doubt": "yellow",
    "preparing": "blue",
    "decided": "blue",
    "prepared": "yellow",
}


def table(
    heads: Sequence[str], rows: Iterable[Sequence[Child]], *, empty: Child = "Nothing here.", caption: str = ""
) -> Markup:
    """A table that scrolls sideways where there is no room. A head that begins with `#` is of numbers, aligned right."""
    body = [_row(heads, row) for row in rows]
    if not body:
        return tag("p", empty, class_="empty")
    titles = [tag("th", head.removeprefix("#"), scope="col", class_=_kind(head)) for head in heads]
    named = tag("caption", caption, class_="unseen") if caption else None
    whole = tag("table", named, tag("thead", tag("tr", titles)), tag("tbody", body))
    return tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label=caption or "Table")


def _row(heads: Sequence[str], row: Sequence[Child]) -> Markup:
    return tag("tr", [_cell(head, cell) for head, cell in zip(heads, row, strict=True)])


def _cell(head: str, cell: Child) -> Markup:
    shown = join(cell)
    kind = _kind(head)
    if kind is None and len(shown.text) > _LINE_CHARACTERS:
        kind = _length(_NOT_SHOWN.sub(" ", shown.text) if "<" in shown.text else shown.text)
    return tag("td", shown, class_=kind)


def _kind(head: str) -> str | None:
    return "number" if head.startswith("#") else None


def _length(text: str) -> str | None:
    """The kind of a cell whose text is long: it has several lines, and its column is not narrow. Others have one line."""
    words = text.split()
    length = sum(map(len, words)) + len(words) - 1
    if length <= _LINE_CHARACTERS:
        return None
    if length > _WORDS_CHARACTERS:
        return "words"
    return "name" if max(map(len, words)) > _WORD_CHARACTERS else "text"


def facts(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """Names and values, for one thing."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs], class_="facts")


def badge(text: str, tone: str | None = None) -> Markup:
    """A state, in a colour and in words."""
    return tag("span", text.replace("_", " "), class_=f"badge {tone or _TONES.get(text, 'grey')}")


def state_mark(state: str, *, words: bool = False) -> Markup:
    """How something is: a shape, a colour and a word, for no colour alone says it."""
    mark = tag("span", _MARKS.get(state, "○"), class_=f"mark {state}", aria_hidden="true")
    said = _WORDS.get(state, state)
    return tag("span", mark, tag("span", said, class_=None if words else "unseen"), class_="state")


def note(tone: str, *children: Child, title: str | None = None) -> Markup:
    """A note that is to be read first: `good`, `warn`, `bad` or `plain`."""
    role = "alert" if tone == "bad" else "status"
    return tag("div", tag("strong", title) if title else None, tag("div", children), class_=f"note {tone}", role=role)


def bar(done: float, whole: float, *, label: str) -> Markup:
    """How much of something is done."""
    share = 0.0 if whole <= 0 else min(1.0, done / whole)
    filled = tag("rect", class_="filled", width=f"{100 * share:.2f}", height=8, rx=1)
    drawn = tag(
        "svg",
        tag("rect", class_="ground", width=100, height=8, rx=1),
        filled,
        viewBox="0 0 100 8",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
        class_="bar",
    )
    return tag("span", drawn, tag("span", f"{100 * share:.0f} %", class_="share"), class_="progress", title=label)


def section(title: str, *children: Child, aside: Child = None, name: str | None = None) -> Markup:
    head = tag("header", tag("h2", title), tag("div", aside, class_="aside") if aside is not None else None)
    return tag("section", head, children, class_="panel", id=name)


def magnitude(value: int, most: int) -> Markup:
    """A small bar beside a number, relative to the largest of a list."""
    width = 0.0 if most <= 0 else 100 * value / most
    filled = tag("rect", class_="filled", width=f"{width:.2f}", height=6)
    return tag(
        "svg", filled, viewBox="0 0 100 6", preserveAspectRatio="none", class_="magnitude", role="img",
        aria_label=short(value),
    )  # fmt: skip


def on_its_way() -> Markup:
    """The note beside a list that the hub is still counting."""
    return tag(
        "p",
        "The hub counts who waits for what. With very many recipients that takes seconds; the list comes by itself.",
        class_="empty",
        aria_busy="true",
    )
