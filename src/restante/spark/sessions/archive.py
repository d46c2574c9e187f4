"""An archive of the classes that a start of Spark loads: with it, Java maps one file instead of reading 280 jars.

It is made ahead, by `python -m restante.spark.prepare --archive`, for one Java and one Spark. Java itself checks that
it fits, and starts without it when it does not, is damaged or gone: it can make a start faster, never fail.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyspark

from restante.spark.sessions import cache, jars
from restante.spark.sessions.java import Java

_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""No word about classes that cannot be archived, or an archive that is of no use."""
_QUIET_OF_25 = ("-Xlog:disable", "-Xlog:all=error,aot*=off:stderr")
"""Newer ones call it an error when an archive is of no use; older ones do not know the word."""
_AHEAD_OF_TIME = 25
"""The first Java that has one file for the classes of Java and of Spark. Before it, ours lies on top of Java's own."""


def place(java: Java) -> Path:
    """Where the archive for this Java lies, if it was made."""
    names = (jar.file for jar in jars.DELTA)
    made_for = "\n".join((str(java.command.resolve()), java.build, pyspark.__version__, *names, pyspark.__file__))
    name = hashlib.sha256(made_for.encode()).hexdigest()[:16]
    return cache.folder("classes") / f"java-{java.version}-{name}.archive"


def using(java: Java) -> tuple[str, ...]:
    """Options of a start that uses the archive; none if there is none."""
    path = place(java)
    if not path.is_file():
        return ()
    if java.version >= _AHEAD_OF_TIME:
        return (f"-XX:AOTCache={path}", *_QUIET_OF_25)
    return (f"-XX:SharedArchiveFile={path}", *_QUIET)


def making(java: Java, path: Path) -> tuple[str, ...]:
    """Options of a start that writes the archive when it ends, of what was loaded until then."""
    if java.version >= _AHEAD_OF_TIME:
        return (f"-XX:AOTCacheOutput={path}", *_QUIET_OF_25)
    return (f"-XX:ArchiveClassesAtExit={path}", *_QUIET)
