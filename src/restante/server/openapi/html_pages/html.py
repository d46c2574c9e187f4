"""Pieces of the pages: text with code spans, tables, and the frame around everything."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files

_code = re.compile(r"`([^`]+)`")


def inline(text: str) -> str:
    """A line of text. Words between backticks are code."""
    return _code.sub(r"<code>\1</code>", escape(text, quote=False))


def paragraphs(text: str) -> str:
    parts = (part.strip() for part in text.strip().split("\n\n"))
    return "".join(f"<p>{inline(part)}</p>" for part in parts if part)


def code_block(text: str) -> str:
    return f'<pre tabindex="0"><code>{escape(text, quote=False)}</code></pre>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already. A table scrolls sideways where there is no room, by keys too."""
    titles = "".join(f'<th scope="col">{title}</th>' for title in head)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    whole = f"<table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(", ".join(head))}">{whole}</div>'


def whole_page(title: str, *, contents: str, main: str) -> bytes:
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{_style()}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<div class="layout">
<nav aria-label="Contents">{contents}</nav>
<main id="main" tabindex="-1">{main}</main>
</div>
<script>{script()}</script>
</body>
</html>
"""
    return page.encode()


@cache
def script() -> str:
    """The one script of a page, which is part of it."""
    return _part("pages.js")


@cache
def script_digest() -> str:
    """The digest by which a browser knows the script, as a content security policy names it."""
    return _digest(script())


@cache
def style_digest() -> str:
    """The digest of the style, for the header that allows it."""
    return _digest(_style())


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def _style() -> str:
    return _part("pages.css")


def _part(name: str) -> str:
    return files("restante.server.openapi").joinpath(name).read_text(encoding="utf-8")
