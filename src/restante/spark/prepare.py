"""Makes later starts of Spark quick and free of the network: `python -m restante.spark.prepare`.

Fetches Delta's jars. With `--archive` it also writes the archive of classes, after a short piece of work in a process of
its own, which takes a minute or more. Files that are there already stay. Run it when a machine or an image is set up; nothing
depends on it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from restante.errors import InvalidOperation, RestanteError
from restante.limits import ARCHIVE_SECONDS_MAX
from restante.spark.sessions import archive, cache, jars, java

_ARCHIVE = "--archive"


def prepare(*, with_archive: bool = False) -> None:
    """Raises what keeps Spark from starting, or an archive from being written."""
    jars.paths()
    found = java.find()
    if with_archive and not archive.place(found).is_file():
        _archive(found)


def _archive(found: java.Java) -> None:
    with tempfile.TemporaryDirectory(dir=cache.folder("classes"), prefix=".new-") as place:
        written = Path(place, "archive")
        said = _child([place, *archive.making(found, written)])
        if not written.is_file():
            raise InvalidOperation(
                f"The archive of classes was not written, and Spark starts without it. {said}".strip()
            )
        written.replace(archive.place(found))


def _child(arguments: list[str]) -> str:
    """The words of the child. It ends with its Java, which goes on writing for a while, or both are ended in time."""
    command = [sys.executable, "-m", __spec__.name, *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        try:
            # Java holds the pipe open until it is done.
            _, said = child.communicate(timeout=ARCHIVE_SECONDS_MAX)
        except BaseException as error:
            os.killpg(child.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return f"It took longer than {ARCHIVE_SECONDS_MAX:.0f} s."
            raise
    return said.strip().rpartition("\n")[2]


def _work(folder: str, options: list[str]) -> None:
    """The first steps of a job: a table written, merged into and read, rows through Python and back."""
    from restante.spark.sessions.start import session  # noqa: PLC0415  # the parent does without Spark

    settings = {"spark.driver.extraJavaOptions": " ".join(options), "spark.driver.memory": "1g"}
    spark = session(master="local[2]", name="prepare", settings=settings)
    table = f"{folder}/table"
    rows = spark.range(100).selectExpr("id", "string(id) AS text")
    rows.mapInArrow(lambda batches: batches, rows.schema).write.format("delta").save(table)
    spark.sql(
        f"MERGE INTO delta.`{table}` AS old USING (SELECT id * 2 AS id FROM range(100)) AS new ON old.id = new.id "
        "WHEN MATCHED THEN UPDATE SET text = 'new' WHEN NOT MATCHED THEN INSERT (id) VALUES (new.id)"
    )
    spark.read.format("delta").load(table).groupBy("text").count().toArrow()
    spark.stop()


def main() -> None:
    given = sys.argv[1:]
    if given and given != [_ARCHIVE]:
        _work(given[0], given[1:])
        return
    try:
        prepare(with_archive=bool(given))
    except RestanteError as error:
        sys.exit(error.message)


if __name__ == "__main__":
    main()
