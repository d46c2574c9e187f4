"""Figures and times as people read them: numbers aligned, times relative with the exact one to be seen."""

from __future__ import annotations

from datetime import UTC, datetime

from restante.console.view.markup import Markup, tag

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_LARGE = ((1e9, "G"), (1e6, "M"), (1e4, "k"))


def whole(number: int) -> str:
    """A number with all its digits, and commas."""
    return f"{number:,}"


def short(number: float) -> str:
    """A figure in about four characters at most: for places where one looks and does not count."""
    for size, unit in _LARGE:
        if abs(number) >= size:
            scaled = number / (1e3 if unit == "k" else size)
            return f"{scaled:.0f} {unit}" if scaled >= 100 else f"{scaled:.1f} {unit}"
    if number == 0 or abs(number) >= 100 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:.1f}" if abs(number) >= 1 else f"{number:.2g}"


def byte_count(number: int) -> str:
    size = float(number)
    for unit in _BYTE_UNITS:
        if size < 1_024 or unit == _BYTE_UNITS[-1]:
            return f"{size:,.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1_024
    raise AssertionError("the last unit holds everything")


def counted(number: int, singular: str, plural: str | None = None) -> str:
    return f"{whole(number)} {singular if number == 1 else plural or singular + 's'}"


def span(seconds: float) -> str:
    """How long, in the largest unit that fits."""
    past = abs(seconds)
    for size, unit in _UNITS:
        if past >= size:
            return f"{past / size:.0f} {unit}"
    return f"{past:.0f} s"


def duration(seconds: float) -> str:
    """How long something took, to about three digits."""
    if seconds < 1:
        return f"{1_000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def relative(moment: datetime | None, *, missing: str = "–") -> Markup:
    """`3 min ago`, with the exact time on hover and for programs; the script keeps it true."""
    if moment is None:
        return tag("span", missing, class_="none")
    seconds = (datetime.now(UTC) - moment).total_seconds()
    said = f"{span(seconds)} ago" if seconds >= 0 else f"in {span(seconds)}"
    exact = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
    return tag("time", said, datetime=moment.astimezone(UTC).isoformat(), title=exact)


def number(value: int | None) -> Markup:
    return tag("span", "–", class_="none") if value is None else Markup(whole(value))
