"""Makes later starts of Spark quick and free of the network: `python -m restante.spark.prepare`.

Fetches Delta's jars, and writes the archive of classes after a short piece of work in a process of its own. What is
there already stays. Run it when a machine or an image is set up; nothing depends on it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from restante.errors import RestanteError
from restante.limits import ARCHIVE_SECONDS_MAX
from restante.spark import archive, cache, jars, java


def prepare() -> None:
    """Raises what keeps Spark from starting; an archive that cannot be made is gone without."""
    jars.paths()
    found = java.find()
    if not archive.place(found).is_file():
        _archive(found)


def _archive(found: java.Java) -> None:
    with tempfile.TemporaryDirectory(dir=cache.folder("classes"), prefix=".new-") as place:
        written = Path(place, "archive")
        try:
            # Its Java outlives the child by the time it takes to write, and holds the pipes open until it is done.
            subprocess.run(
                [sys.executable, "-m", __spec__.name, place, *archive.making(found, written)],
                capture_output=True,
                timeout=ARCHIVE_SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return
        if written.is_file():
            written.replace(archive.place(found))


def _work(folder: str, options: list[str]) -> None:
    """What a job does first: a table written, merged into and read, rows through Python and back."""
    from restante.spark.starting import session  # noqa: PLC0415  # the parent does without Spark

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
    if len(sys.argv) > 1:
        _work(sys.argv[1], sys.argv[2:])
        return
    try:
        prepare()
    except RestanteError as error:
        sys.exit(error.message)


if __name__ == "__main__":
    main()
