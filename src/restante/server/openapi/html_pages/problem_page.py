"""The page of problem codes: what each means, what to do, how it looks. A problem's `type` leads to its place here."""

from __future__ import annotations

import json

from restante.server.openapi import problems
from restante.server.openapi.html_pages import html
from restante.wire.problems import CODES, status_of, title_of

_INTRODUCTION = """
Every error is answered as `application/problem+json` (RFC 9457). Programs look at `code`, which never changes once
released, and at `retriable`; `detail` is for people. `errors` names each wrong message of a body by its index.
"""


def page() -> bytes:
    by_status: dict[int, list[str]] = {}
    for code in CODES:
        by_status.setdefault(status_of(code), []).append(code)
    links = "".join(
        f'<div class="group"><b>{status}</b><ul>{_links(codes)}</ul></div>'
        for status, codes in sorted(by_status.items())
    )
    sections = "".join(
        f"<section><h2>{status}</h2>{''.join(map(_section, codes))}</section>"
        for status, codes in sorted(by_status.items())
    )
    return html.whole_page(
        "Restante: problems",
        contents=f'<p><a href="/docs">All routes</a></p>{links}',
        main=f"<h1>Problems</h1>{html.paragraphs(_INTRODUCTION)}{sections}",
    )


def _links(codes: list[str]) -> str:
    return "".join(f'<li><a href="#{code}">{code}</a></li>' for code in codes)


def _section(code: str) -> str:
    advice = problems.advice_of(code)
    return (
        f'<article id="{code}"><h3><code>{code}</code> {html.inline(title_of(code))}</h3>'
        f"{html.paragraphs(advice.meaning)}<p><b>What to do.</b> {html.inline(advice.remedy)}</p>{_shown(code)}</article>"
    )


def _shown(code: str) -> str:
    if code in problems.LATER:
        return ""
    text = json.dumps(problems.example(code), indent=2, ensure_ascii=False)
    return f"<details><summary>How it looks</summary>{html.code_block(text)}</details>"
