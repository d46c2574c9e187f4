"""The examples of README and docs: each block marked `<!-- run -->` runs, and prints what is shown.

The marked blocks of a page are one program and one shell session, run in a folder of their own.

- A Python block prints what the `text` block directly below it shows; without one, nothing.
- A console block has commands, each on a line that begins with `$ `, and below each what it prints. A command that ends
  with `&` goes on in the background until the page is done. What differs each time (ids, times, durations) may differ.

A Python block marked `<!-- file shop.py -->` is written into the folder under that name before anything runs.

A page that says 8470 is run on a free port instead. Blocks marked `<!-- run with spark -->` run where the one session of
all tests is, in `tests/spark`.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.server import free_port

CHECKOUT = Path(__file__).parents[2]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
MARK = "<!-- run -->"
SPARK_MARK = "<!-- run with spark -->"
PORT = "8470"
MARKED = re.compile(
    rf"^{re.escape(MARK)}\n```(?P<kind>python|console)\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"^<!-- file (?P<name>[\w.]+) -->\n```python\n(?P<code>.*?)^```\n", re.MULTILINE | re.DOTALL)
CHANGING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|in [\d.,]+ m?s \([\d,]+ a second\)"
    r'|"duration_ms":[\d.]+'
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"
)


class Example(NamedTuple):
    line: int
    kind: str
    code: str
    shown: str


def examples_of(page: Path, *, mark: str = MARK) -> list[Example]:
    text = page.read_text(encoding="utf-8")
    marked = re.compile(MARKED.pattern.replace(re.escape(MARK), re.escape(mark)), MARKED.flags)
    found = [
        Example(text.count("\n", 0, match.start("code")), match["kind"], match["code"], match["shown"] or "")
        for match in marked.finditer(text)
    ]
    assert len(found) == text.count(mark), f"in {page.name}, a mark stands directly before its block"
    return found


def pages_with(mark: str) -> list[Path]:
    return [page for page in PAGES if mark in page.read_text(encoding="utf-8")]


class Session:
    """One page being run."""

    def __init__(self, page: Path, folder: Path) -> None:
        self._page = page
        self._folder = folder
        self._namespace: dict[str, object] = {"__name__": "__main__"}
        self._background: list[subprocess.Popen[str]] = []
        self._port = str(free_port())
        scripts = Path(sys.executable).parent
        self._environment = os.environ | {
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "RESTANTE_HUB": f"http://127.0.0.1:{self._port}",
            "RESTANTE_SERVER__PORT": self._port,
            "RESTANTE_HEALTH__DISABLED": "deep_write",  # it takes sequence numbers, which pages show
        }

    def python(self, example: Example) -> str:
        """What it prints. Line numbers in a traceback are those of the page."""
        code = compile("\n" * example.line + self._placed(example.code), self._page, "exec")
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(code, self._namespace)
        return printed.getvalue()

    def console(self, command: str) -> str:
        command = self._placed(command)
        if not command.endswith("&"):
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self._folder,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            return done.stdout + done.stderr
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command.removesuffix('&')}"],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._background.append(process)
        assert process.stdout is not None
        return process.stdout.readline()

    def shown(self, text: str) -> str:
        """As it is compared: without what changes, on our port, and without spaces at the ends of lines.

        First without what changes: an id may have the digits of the port in it.
        """
        lines = self._placed(CHANGING.sub("…", text)).rstrip("\n").split("\n")
        return "\n".join(map(str.rstrip, lines))

    def _placed(self, text: str) -> str:
        return text.replace(PORT, self._port)

    def close(self) -> None:
        for process in self._background:
            process.terminate()
            assert process.wait() == 0
            assert process.stdout is not None
            process.stdout.close()


def commands_of(code: str) -> Iterator[tuple[str, str]]:
    """Each command with what it prints."""
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check_page(page: Path, folder: Path, *, mark: str = MARK) -> None:
    """Run its marked blocks; each prints what the page says."""
    session = Session(page, folder)
    for file in FILE.finditer(page.read_text(encoding="utf-8")):
        (folder / file["name"]).write_text(file["code"], encoding="utf-8")
    try:
        for example in examples_of(page, mark=mark):
            where = f"{page.name}, line {example.line + 1}"
            if example.kind == "python":
                assert session.shown(session.python(example)) == session.shown(example.shown), where
                continue
            for command, printed in commands_of(example.code):
                assert session.shown(session.console(command)) == session.shown(printed), f"{where}: {command}"
    finally:
        session.close()


@pytest.mark.parametrize("page", pages_with(MARK), ids=lambda p: p.stem)
def test_the_examples_of_a_page_print_what_it_shows(page: Path, folder: Path) -> None:
    check_page(page, folder)


def test_only_pages_that_are_run_with_spark_start_it() -> None:
    starting = [page.name for page in pages_with(MARK) if "spark" in "".join(one.code for one in examples_of(page))]
    assert starting == []


def test_the_readme_has_three_commands_and_an_example() -> None:
    commands, example = examples_of(CHECKOUT / "README.md")
    assert len(list(commands_of(commands.code))) == 3
    assert all(printed for _, printed in commands_of(commands.code))
    assert example.shown
    assert example.code.count("\n") <= 20
