"""Files where Spark can write, whatever kind of place that is: listed, put in their place in one step, removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def absolute(path: str) -> str:
    """A folder of this machine from its root on, since Delta's SQL takes no other; any other place as it is."""
    return path if ":/" in path else str(Path(path).absolute())


class Folders:
    """Folders through Spark's own access to files, so a folder, HDFS and an object store are all the same."""

    def __init__(self, spark: SparkSession) -> None:
        self._hadoop: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]  # noqa: SLF001 - the only way there is
        self._replacing: Any = _replacing(spark)
        self._settings: Any = spark._jsc.hadoopConfiguration()  # noqa: SLF001 - the only way there is

    def exists(self, path: str) -> bool:
        return bool(self._system(path).exists(self._hadoop.Path(path)))

    def on_this_machine(self, path: str) -> str | None:
        """The folder as this machine's own files name it; None, if it lies elsewhere."""
        whole = self._system(path).makeQualified(self._hadoop.Path(path)).toUri()
        return str(whole.getPath()) if whole.getScheme() == "file" else None

    def files(self, path: str, *, ending: str) -> Iterator[str]:
        """All files with this ending, however deep."""
        found = self._system(path).listFiles(self._hadoop.Path(path), True)
        while found.hasNext():
            name = str(found.next().getPath().toString())
            if name.endswith(ending):
                yield name

    def move(self, source: str, target: str) -> None:
        """Move a file from one moment to the next, into the place of what was there."""
        to = self._hadoop.Path(target)
        self._system(target).mkdirs(to.getParent())
        context = self._hadoop.FileContext.getFileContext(to.toUri(), self._settings)
        context.rename(self._hadoop.Path(source), to, self._replacing)

    def remove(self, path: str) -> None:
        """A file, or a folder with all that is in it; nothing if it is not there."""
        self._system(path).delete(self._hadoop.Path(path), True)

    def _system(self, path: str) -> Any:  # noqa: ANN401 - one of Java's objects
        return self._hadoop.Path(path).getFileSystem(self._settings)


def _replacing(spark: SparkSession) -> Any:  # noqa: ANN401 - one of Java's objects
    """A Java array with the one word that lets a file take another's place."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - the only way there is
    kind = getattr(gateway.jvm.org.apache.hadoop.fs, "Options$Rename")
    words = gateway.new_array(kind, 1)
    words[0] = kind.OVERWRITE
    return words
