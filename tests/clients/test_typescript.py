"""The TypeScript client, in Node, against real hubs. What it promises is tried in `clients/typescript/tests`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import restante
from restante import Message
from restante.model.access.access import Role
from restante.ports.content import Content, OriginPort
from restante.server.access.tokens import TokenFile
from restante.server.serve import ServedHub, start
from restante.settings import Settings
from tools.typescript_client import CLIENT, NODE, build, compile_project, install

# The client is built once, by one process.
pytestmark = pytest.mark.xdist_group("typescript")

SETTINGS = Settings(partition_count=2, housekeeping_seconds=0)
ORIGINS = {"series": OriginPort(content=lambda request: Content(data=b"a,b\n", media_type="text/csv"))}
TESTING = ("--test", "--test-reporter=tap", "--test-timeout=240000")
PROGRAMS = sorted(path.name.removesuffix(".test.ts") for path in (CLIENT / "tests").glob("*.test.ts"))
PAGES = (CLIENT / "README.md", CLIENT.parents[1] / "docs" / "guide" / "typescript.md")
EXAMPLE = re.compile(
    r"^<!-- run with node -->\n```typescript\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)


@pytest.fixture(scope="module")
def built() -> None:
    build()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    with start(tmp_path_factory.mktemp("open") / "data", SETTINGS, origins=ORIGINS) as running:
        yield running


@pytest.fixture(scope="module")
def environment(
    built: None, served: ServedHub, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, str]]:
    """Where the hubs are: one that asks for no token, and one that does."""
    folder = tmp_path_factory.mktemp("guarded") / "data"
    folder.mkdir()
    token = TokenFile(folder / "tokens.json").create(roles=[Role.PUBLISHER, Role.RECIPIENT])
    with start(folder, SETTINGS) as guarded:
        yield os.environ | {
            "RESTANTE_TEST_OPEN": served.url,
            "RESTANTE_TEST_GUARDED": guarded.url,
            "RESTANTE_TEST_TOKEN": token,
        }


def run(program: Path, environment: Mapping[str, str], *options: str) -> str:
    done = subprocess.run(
        [NODE, *options, program], cwd=CLIENT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_compiler_comes_by_the_lock() -> None:
    install()
    package = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    for name, version in package["devDependencies"].items():
        there = json.loads((CLIENT / "node_modules" / name / "package.json").read_text(encoding="utf-8"))
        assert there["version"] == version


def test_the_client_and_its_tests_pass_the_strict_type_checker(built: None) -> None:
    assert (CLIENT / "dist" / "index.d.ts").exists()


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_client_keeps_its_promises_in_node(program: str, environment: Mapping[str, str]) -> None:
    told = run(CLIENT / "build" / "tests" / f"{program}.test.js", environment, *TESTING)
    passed = re.search(r"^# pass (\d+)$", told, re.MULTILINE)
    assert passed is not None
    source = (CLIENT / "tests" / f"{program}.test.ts").read_text(encoding="utf-8")
    assert int(passed[1]) >= len(re.findall(r"^ *test\(", source, re.MULTILINE)), (
        "all of them ran, and none was left out"
    )
    assert re.search(r"^# skipped 0$", told, re.MULTILINE)


def test_there_are_programs_to_run() -> None:
    assert PROGRAMS == ["collecting", "following", "places", "retrying", "sending", "tickets"]


@pytest.mark.parametrize("transport", ["websocket", "events"])
def test_following_goes_on_after_the_hub_was_restarted(built: None, transport: str, tmp_path: Path) -> None:
    served = start(tmp_path / "data", SETTINGS)
    port = int(served.url.rpartition(":")[2])
    program: list[str | Path] = [NODE, CLIENT / "build" / "tests" / "follower.js", served.url, "ada", transport]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as following:
        try:
            send(served, 1)
            assert data_after(following) == 1
            served.stop()
            reconnecting = line_of(following)
            assert reconnecting["stage"] == "reconnecting"
            assert "draining" in reconnecting["reason"]
            served = start(tmp_path / "data", SETTINGS, port=port)
            send(served, 2)
            assert data_after(following) == 2
        finally:
            following.kill()
            served.stop()


def send(served: ServedHub, number: int) -> None:
    with restante.connect(served.url) as hub:
        hub.producer.send(Message(recipient="ada", data=number))


def data_after(following: subprocess.Popen[str]) -> object:
    """The data of the next message, whatever is said of the connection before it."""
    while "data" not in (line := line_of(following)):
        assert "stage" in line
    return line["data"]


def line_of(following: subprocess.Popen[str]) -> dict[str, Any]:
    assert following.stdout is not None
    line: dict[str, Any] = json.loads(following.stdout.readline())
    return line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_the_examples_of_a_page_print_what_it_shows(built: None, page: Path, served: ServedHub) -> None:
    """The blocks of a page are one program. It is type-checked, then run."""
    text = page.read_text(encoding="utf-8")
    examples = list(EXAMPLE.finditer(text))
    assert len(examples) == text.count("<!-- run with node -->") > 0
    folder = CLIENT / "build" / "pages" / page.stem
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    code = "".join(example["code"] for example in examples)
    (folder / "page.ts").write_text(code.replace("http://127.0.0.1:8470", served.url), encoding="utf-8")
    options = {"rootDir": ".", "outDir": "built"}
    project = {"extends": "../../../tsconfig.tests.json", "compilerOptions": options, "include": ["page.ts"]}
    (folder / "tsconfig.json").write_text(json.dumps(project), encoding="utf-8")
    compile_project(folder / "tsconfig.json")
    assert run(folder / "built" / "page.js", os.environ) == "".join(example["shown"] or "" for example in examples)


def test_the_lock_names_no_registry() -> None:
    lock = (CLIENT / "package-lock.json").read_text(encoding="utf-8")
    assert "resolved" not in lock
    assert "://" not in lock


def test_the_client_needs_nothing_at_run_time() -> None:
    package = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    assert "dependencies" not in package
    sources = "".join(path.read_text(encoding="utf-8") for path in (CLIENT / "src").glob("*.ts"))
    assert set(re.findall(r'from "([^.][^"]*)"', sources)) == set()


def test_the_package_has_the_version_of_the_hub() -> None:
    package = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == restante.__version__
