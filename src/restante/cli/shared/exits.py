"""Exit codes of commands."""

from __future__ import annotations

WRONG = 1
"""The exit code when something is wrong; standard error says what."""
NOTHING_THERE = 3
"""The exit code when nothing is wrong, and nothing was there."""
NOT_QUITE_WELL = 4
"""The exit code when the hub works, and somebody should look."""

EPILOG = (
    "Exit codes: 0 all is well, 1 something is wrong (standard error says what), 2 the command was not understood, "
    "3 nothing was there (collect, explain, history), 4 something needs attention (health), 130 Ctrl-C ended it."
)
