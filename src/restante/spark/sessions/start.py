"""Starts Spark as our jobs need it: with a Java, with Delta, with `format("restante")`, and without its chatter."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from subprocess import Popen
from typing import Any

from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

from restante.limits import PYTHON_HELLO_SECONDS_MAX, SPARK_ARROW_BATCH_BYTES, SPARK_ARROW_BATCH_ROWS
from restante.spark.sessions import archive, cache, jars, java
from restante.spark.source.registration import register

_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
# Spark, driven from Python, sets the root's level to this logger's, and says so if it differs.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
# Of a write that is given up, which is no news: its caller gave it up, and an error is raised as well.
logger.writing.name = org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec
logger.writing.level = off
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
_ANYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(SPARK_ARROW_BATCH_ROWS),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(SPARK_ARROW_BATCH_BYTES),
}
_AT_START = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # On a busy machine a new Python may take longer to say hello than the 15 s that Spark waits for it.
    "spark.python.authenticate.socketTimeout": f"{PYTHON_HELLO_SECONDS_MAX}s",
}
_JOINED = {
    "spark.sql.extensions": ",",
    "spark.jars": ",",
    "spark.driver.extraJavaOptions": " ",
    "spark.driver.extraClassPath": os.pathsep,
}
"""Settings of which the user's come beside ours, and by what they are joined."""


def session(
    *, master: str | None = None, name: str = "restante", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, or a new one. Settings given here win over our own."""
    given = dict(settings or {})
    running = SparkSession.getActiveSession()
    if running is None:
        spark = _submitted(name, given) if "PYSPARK_GATEWAY_PORT" in os.environ else _started(master, name, given)
    else:
        spark = running
        _apply(spark, {**_ANYWHERE, **given})
    register(spark)
    return spark


def is_local(master: str) -> bool:
    """Whether everything runs in one process on this machine."""
    return master == "local" or master.startswith("local[")


def _started(master: str | None, name: str, given: Mapping[str, str]) -> SparkSession:
    """A session in a process that starts its own Java."""
    place = master or given.get("spark.master") or "local[*]"
    found = java.find()
    surroundings = {
        "JAVA_HOME": str(java.home(found)),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable,
    }
    ours = {**_ANYWHERE, **_AT_START, **_of_driver(found)}
    ours |= _of_local(place) if is_local(place) else _of_cluster()
    with _environment(surroundings), _ending_java_if_it_fails():
        return _built(place, name, _merged(ours, given))


def _submitted(name: str, given: Mapping[str, str]) -> SparkSession:
    """A session in a program that `spark-submit` has started: its Java runs already, with the jars that were given there."""
    return _built(None, name, _merged({**_ANYWHERE, **_AT_START}, given))


def _built(master: str | None, name: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    return builder.config(map=dict(settings)).getOrCreate()


def _apply(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Apply the settings that can be changed in a session that runs."""
    for key, value in settings.items():
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)


def _of_driver(found: java.Java) -> dict[str, str]:
    logging = cache.put(cache.folder() / "log4j2.properties", _LOGGING.encode())
    options = (f"-Dlog4j2.configurationFile={logging.as_uri()}", *archive.using(found))
    return {"spark.driver.extraJavaOptions": " ".join(options)}


def _of_local(master: str) -> dict[str, str]:
    threads = _threads(master)
    return {
        # On the class path rather than in `spark.jars`, from where each would be copied at every start.
        "spark.driver.extraClassPath": os.pathsep.join(str(path) for path in jars.paths()),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(max(2, threads)),
        # Delta reads its log in 50 tasks unless told otherwise, each of which costs more here than it reads.
        "spark.databricks.delta.snapshotPartitions": "2",
    }


def _of_cluster() -> dict[str, str]:
    """The driver serves the jars to the executors."""
    return {"spark.jars": ",".join(str(path) for path in jars.paths())}


def _threads(master: str) -> int:
    count = master.removeprefix("local").strip("[]").split(",")[0]
    return int(count) if count.isdigit() else os.cpu_count() or 1 if count == "*" else 1


def _merged(ours: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    both = {
        key: separator.join((ours[key], given[key]))
        for key, separator in _JOINED.items()
        if key in ours and key in given
    }
    return {**ours, **given, **both}


@contextmanager
def _ending_java_if_it_fails() -> Iterator[None]:
    """If Spark does not come up, by Ctrl-C or otherwise, its Java ends with it, and leaves no trace on the terminal.

    Java does not hear Ctrl-C, and pyspark has no way to end it while it waits for it. So this function notes the processes that
    pyspark starts.
    """
    started: list[Popen[bytes]] = []
    names, log = vars(java_gateway), logging.getLogger("py4j")
    popen, level = names["Popen"], log.level

    def noted(*arguments: Any, **options: Any) -> Popen[bytes]:  # noqa: ANN401 - those of Popen
        started.append(popen(*arguments, **options))
        return started[-1]

    names["Popen"] = noted
    log.setLevel(logging.CRITICAL)  # py4j would log each connection that is cut; errors are raised anyway.
    try:
        yield
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
        raise
    finally:
        names["Popen"] = popen
    log.setLevel(level)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """The process's environment while Java is started, and then again as it was."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
