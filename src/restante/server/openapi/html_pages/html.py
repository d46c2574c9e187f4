"""Pieces of the pages: text with code spans, tables, and the frame around everything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files

_code = re.compile(r"`([^`]+)`")


def inline(text: str) -> str:
    """A line of text; what stands between backticks is code."""
    return _code.sub(r"<code>\1</code>", escape(text, quote=False))


def paragraphs(text: str) -> str:
    parts = (part.strip() for part in text.strip().split("\n\n"))
    return "".join(f"<p>{inline(part)}</p>" for part in parts if part)


def code_block(text: str) -> str:
    return f"<pre><code>{escape(text, quote=False)}</code></pre>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already."""
    titles = "".join(f"<th>{title}</th>" for title in head)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{titles}</tr>{lines}</table></div>'


def whole_page(title: str, *, contents: str, main: str) -> bytes:
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_style()}</style>
</head>
<body>
<div class="layout">
<nav aria-label="Contents">{contents}</nav>
<main>{main}</main>
</div>
</body>
</html>
"""
    return page.encode()


@cache
def _style() -> str:
    return files("restante.server.openapi").joinpath("pages.css").read_text(encoding="utf-8")
