"""Figures as people read them: counts, rates, sizes, durations, times."""

from __future__ import annotations

from datetime import datetime

_UNITS = ("B", "kB", "MB", "GB", "TB")


def counted(number: int, what: str) -> str:
    """`1 message`, `12,000 messages`, `2 batches`."""
    plural = f"{what}es" if what.endswith("ch") else f"{what}s"
    return f"{number:,} {what if number == 1 else plural}"


def rate(number: int, seconds: float) -> str:
    return f"{number / max(seconds, 1e-9):,.0f} a second"


def size(count: float) -> str:
    """Bytes, in the unit that suits them."""
    for unit in _UNITS[:-1]:
        if count < 1_000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1_000
    return f"{count:,.1f} {_UNITS[-1]}"


def duration(seconds: float) -> str:
    return f"{seconds * 1_000:,.0f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def seconds(count: float) -> str:
    """A duration beside others: always in seconds, to the hundredth."""
    return f"{count:,.2f} s"


def clock_time(moment: datetime) -> str:
    """Write a time in UTC, to the second."""
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
