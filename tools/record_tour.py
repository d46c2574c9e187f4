"""Records `restante tour --once` as an animated SVG: docs/images/tour.svg.

The tour is run for real, with its standard error in a terminal, so that the live lines are shown as well. Its bars are
left out. Every line of the picture is a line of that run; only the pace at which lines appear is made up. Where nothing
is animated, all lines are there at once.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "tour.svg"
COMMAND = "restante tour --once"
COLUMNS = 104
LINE_HEIGHT, CHARACTER_WIDTH, MARGIN, TOP = 19, 8.43, 18, 46
SECONDS_A_LINE = 0.14
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
HEADING = re.compile(r"^(A sample night|Who is late|Every message arrived)")
SUBJECT = re.compile(
    r"^(live|publish a parcel again|publish|pushed live|collect and confirm|the late ones come|batch|explain|stored)  +"
)

STYLE = """
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d7dce2; white-space: pre; }
.prompt { fill: #8bd49c; } .heading { fill: #ffffff; font-weight: bold; } .subject { fill: #7cc7e8; } .good { fill: #8bd49c; font-weight: bold; }
@media (prefers-reduced-motion: no-preference) { .line { opacity: 0; animation: show .15s linear forwards; } }
@keyframes show { to { opacity: 1; } }
"""


def run_of_tour() -> list[str]:
    """The lines of a real run: the first of each recipient in the live view, then the answer."""
    ours, theirs = pty.openpty()
    live: list[str] = []
    reader = threading.Thread(target=_read, args=(ours, live))
    command = [sys.executable, "-m", "restante.cli", *COMMAND.split()[1:]]
    environment = os.environ | {"COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True) as process:
        os.close(theirs)
        reader.start()
        assert process.stdout is not None
        answer = process.stdout.read().splitlines()
    reader.join()
    os.close(ours)
    if process.returncode:
        raise SystemExit(f"the tour ended with {process.returncode}")
    first = {line.split()[1]: line for line in reversed(live) if line.startswith("live ")}
    return [f"$ {COMMAND}", *sorted(first.values()), *(_as_installed(line) for line in answer)]


def _read(terminal: int, live: list[str]) -> None:
    seen = b""
    while True:
        try:
            read = os.read(terminal, 65_536)
        except OSError:  # Linux answers so when the other end is closed.
            break
        if not read:
            break
        seen += read
    live += [line.strip() for line in re.split(r"[\r\n]+", ESCAPE.sub("", seen.decode()))]


def _as_installed(line: str) -> str:
    """The command that the tour says to copy, as it is called where Restante is installed."""
    return re.sub(r": .*(restante\S*|-m restante) tour --spark$", ": restante tour --spark", line)


def joined(lines: list[str]) -> list[str]:
    """Without spaces at the ends, and with at most one empty line in a row."""
    found: list[str] = []
    for line in map(str.rstrip, lines):
        if line or (found and found[-1]):
            found.append(line)
    return found


def drawn(lines: list[str]) -> str:
    width = round(COLUMNS * CHARACTER_WIDTH + 2 * MARGIN)
    height = TOP + len(lines) * LINE_HEIGHT + MARGIN
    dots = "".join(
        f'<circle cx="{MARGIN + 6 + number * 20}" cy="20" r="6" fill="{colour}"/>'
        for number, colour in enumerate(("#e06c75", "#e5c07b", "#98c379"))
    )
    texts = "\n".join(_text(number, line) for number, line in enumerate(lines) if line)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="A terminal in which {COMMAND} runs">\n<style>{STYLE}</style>\n'
        f'<rect width="{width}" height="{height}" rx="10" fill="#1d2229"/>{dots}\n{texts}\n</svg>\n'
    )


def _text(number: int, line: str) -> str:
    delay = SECONDS_A_LINE * (number + (4 if number else 0))
    place = f'x="{MARGIN}" y="{TOP + (number + 1) * LINE_HEIGHT - 5}"'
    return (
        f'<text class="line" {place} style="animation-delay:{delay:.2f}s" xml:space="preserve">{_coloured(line)}</text>'
    )


def _coloured(line: str) -> str:
    if line.startswith("$ "):
        return f'<tspan class="prompt">$</tspan>{escape(line[1:])}'
    if HEADING.match(line):
        return f'<tspan class="{"good" if line.startswith("Every") else "heading"}">{escape(line)}</tspan>'
    if subject := SUBJECT.match(line):
        return f'<tspan class="subject">{escape(subject[0])}</tspan>{escape(line[subject.end() :])}'
    return escape(line)


def main() -> None:
    PICTURE.write_text(drawn(joined(run_of_tour())), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)} is written")


if __name__ == "__main__":
    main()
