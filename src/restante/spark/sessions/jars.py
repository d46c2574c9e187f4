"""The jars of Delta: fetched once by Spark's own Ivy, kept in our cache, and found there at every later start.

`python -m restante.spark.prepare` fetches them ahead. Each start gives Spark the files themselves, so that nothing is
resolved and no network is needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyspark

from restante.errors import Unavailable
from restante.limits import JARS_FETCH_SECONDS_MAX
from restante.spark.sessions import cache, java

SCALA = "2.13"
DELTA = "4.4.0"
UNITY_CATALOG = "0.6.0"
PACKAGE = f"io.delta:delta-spark_{'.'.join(pyspark.__version__.split('.')[:2])}_{SCALA}:{DELTA}"
NAMES = (
    f"io.delta_delta-kernel-api-{DELTA}.jar",
    f"io.delta_delta-kernel-defaults-{DELTA}.jar",
    f"io.delta_delta-kernel-unitycatalog-{DELTA}.jar",
    f"io.delta_{PACKAGE.split(':')[1]}-{DELTA}.jar",
    f"io.delta_delta-storage-{DELTA}.jar",
    f"io.unitycatalog_unitycatalog-client-{UNITY_CATALOG}.jar",
    f"io.unitycatalog_unitycatalog-hadoop-{UNITY_CATALOG}.jar",
)
"""The names of the jars, as Ivy names its files."""
EXCLUDES = ("com.*:*", "commons-*:*", "io.airlift:*", "jakarta.*:*", "javax.*:*", "org.*:*")
"""The jars that Delta's need beside one another and that Spark ships."""
MIRROR = "RESTANTE_SPARK_REPOSITORIES"
"""The environment's name for other places to fetch from, with commas between; asked before Maven Central."""
_PLACE = "https://repo1.maven.org/maven2"


def folder() -> Path:
    """The folder in which the jars are kept."""
    return cache.folder("jars", f"delta-{DELTA}-spark-{pyspark.__version__}")


def paths() -> list[Path]:
    """The files, fetched if they are not there."""
    files = [folder() / name for name in NAMES]
    if not all(file.is_file() for file in files):
        _fetch(folder())
    return files


def _fetch(kept: Path) -> None:
    """Fetch into a folder of this process's own first: two processes that fetch at once do not disturb one another."""
    with tempfile.TemporaryDirectory(dir=kept, prefix=".new-") as place:
        said = _resolve(Path(place))
        fetched = Path(place, "jars")
        missing = [name for name in NAMES if not (fetched / name).is_file()]
        if missing:
            raise Unavailable(_complaint(missing, said), missing=missing)
        for name in NAMES:
            (fetched / name).replace(kept / name)


def _resolve(place: Path) -> str:
    """Has Spark resolve the packages for a program that does nothing; gives what was said about it."""
    program = place / "nothing.py"
    program.write_text("")
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]"]
    command += ["--packages", PACKAGE, "--exclude-packages", ",".join(EXCLUDES), "--conf", f"spark.jars.ivy={place}"]
    mirrors = os.environ.get(MIRROR)
    if mirrors:
        command += ["--repositories", mirrors]
    try:
        done = subprocess.run(
            [*command, str(program)],
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=JARS_FETCH_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end after {JARS_FETCH_SECONDS_MAX} s"
    return done.stderr + done.stdout


def _environment() -> Mapping[str, str]:
    found = {"JAVA_HOME": str(java.home(java.find())), "PYSPARK_PYTHON": sys.executable}
    others = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    return {**others, **found}


def _complaint(missing: list[str], said: str) -> str:
    reasons = [line.strip() for line in said.splitlines() if "Exception" in line or "error" in line.lower()]
    places = ", ".join(filter(None, (os.environ.get(MIRROR), _PLACE)))
    return (
        f"Delta's jars could not be fetched ({PACKAGE}, from {places}): {', '.join(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} missing. {reasons[-1] if reasons else ''} "
        f"Make the network reach one of these places, name a mirror of Maven Central in {MIRROR}, or copy the files "
        f"into {folder()}."
    )
