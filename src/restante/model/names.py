"""Rules for names that stand in a URL, beside blank and too long: recipients, and the ids of messages.

`.` and `..` are steps in a path, which clients and proxies take before the hub sees them; control characters get lost
or stand for something else on their way.
"""

from __future__ import annotations

import re

STEPS = frozenset({".", ".."})
CONTROL = r"[\x00-\x1f\x7f-\x9f]"
"""A control character, for regular expressions."""
_control = re.compile(CONTROL)


def name_problem(text: str) -> str | None:
    """The problem with a name, as the end of a sentence that begins with what it is."""
    if text in STEPS:
        return f"must not be {text!r}, which is a step in a URL and no name"
    if not text.isprintable() and _control.search(text):
        return "must not have control characters"
    return None
