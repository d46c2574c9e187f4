"""The jars of Kafka, fetched once by Spark's own Ivy as those of Delta are, and kept in the same cache."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pyspark

from restante.limits import JARS_FETCH_SECONDS_MAX
from restante.spark.sessions import cache
from restante.spark.sessions.jars import MIRROR, SCALA, _environment

KAFKA = "4.1.0"
PACKAGE = f"org.apache.kafka:kafka_{SCALA}:{KAFKA}"
_DONE = "complete"


def class_path() -> str:
    """Kafka's jars, and the Scala that comes with Spark."""
    folder = cache.folder("jars", f"kafka-{KAFKA}")
    if not (folder / _DONE).is_file():
        _fetch(folder)
    scala = (Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar")
    return os.pathsep.join(str(path) for path in (*sorted(folder.glob("*.jar")), *scala))


def _fetch(kept: Path) -> None:
    with tempfile.TemporaryDirectory(dir=kept, prefix=".new-") as place:
        program = Path(place, "nothing.py")
        program.write_text("")
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]"]
        command += ["--packages", PACKAGE, "--conf", f"spark.jars.ivy={place}"]
        if mirrors := os.environ.get(MIRROR):
            command += ["--repositories", mirrors]
        done = subprocess.run(
            [*command, str(program)],
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=JARS_FETCH_SECONDS_MAX,
            check=False,
        )
        fetched = sorted(Path(place, "jars").glob("*.jar"))
        assert any("kafka-clients" in path.name for path in fetched), done.stderr[-2000:]
        for path in fetched:
            path.replace(kept / path.name)
        (kept / _DONE).write_text(KAFKA)
