"""Jars, fetched once and kept in our cache; and those of Delta, which each start of Spark needs.

Each jar is pinned by its SHA-256, and a file with another one is as good as none: so it does not matter which mirror
it comes from. They are fetched file by file, without Ivy or Maven, whose local repositories may hold half of what they
list. Each start gives Spark the files themselves, so that nothing is resolved and no network is needed.
`python -m restante.spark.prepare` fetches the jars of Delta ahead.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.request import build_opener

import pyspark

from restante.errors import Unavailable
from restante.limits import JAR_BYTES_MAX, JAR_STALL_SECONDS_MAX, JARS_FETCH_SECONDS_MAX, MIB
from restante.spark.sessions import cache

MIRROR = "RESTANTE_SPARK_REPOSITORIES"
"""The environment's name for other places to fetch from, with commas between; asked before Maven Central."""
_CENTRAL = "https://repo1.maven.org/maven2"
_DELTA = "4.4.0"


class Jar(NamedTuple):
    """A jar of a Maven repository, and the SHA-256 of its content."""

    package: str
    """The group, the artifact and the version, with colons between."""
    sha256: str

    @property
    def file(self) -> str:
        """The name of the file in the cache: that of Ivy, which has the group, too."""
        group, artifact, version = self.package.split(":")
        return f"{group}_{artifact}-{version}.jar"

    @property
    def path(self) -> str:
        """The path of the file in a repository."""
        group, artifact, version = self.package.split(":")
        return f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar"


DELTA = (
    Jar(f"io.delta:delta-kernel-api:{_DELTA}", "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11"),
    Jar(f"io.delta:delta-kernel-defaults:{_DELTA}", "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b"),
    Jar(
        f"io.delta:delta-kernel-unitycatalog:{_DELTA}",
        "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
    ),
    Jar(f"io.delta:delta-spark_4.2_2.13:{_DELTA}", "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead"),
    Jar(f"io.delta:delta-storage:{_DELTA}", "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc"),
    Jar(
        "io.unitycatalog:unitycatalog-client:0.6.0", "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19"
    ),
    Jar(
        "io.unitycatalog:unitycatalog-hadoop:0.6.0", "c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150"
    ),
)
"""The jars of Delta, less those that Spark ships."""


def paths() -> list[Path]:
    """The files of Delta, fetched if they are not there."""
    return kept(f"delta-{_DELTA}-spark-{pyspark.__version__}", DELTA)


def kept(name: str, pinned: Sequence[Jar]) -> list[Path]:
    """The files of these jars in a folder of the cache; those that are missing there, or are damaged, are fetched."""
    folder, deadline = cache.folder("jars", name), time.monotonic() + JARS_FETCH_SECONDS_MAX
    for jar in pinned:
        file = folder / jar.file
        if not (file.is_file() and sha256(file.read_bytes()).hexdigest() == jar.sha256):
            cache.put(file, _fetched(jar, folder, deadline))
    return [folder / jar.file for jar in pinned]


def _fetched(jar: Jar, folder: Path, deadline: float) -> bytes:
    """The content of a jar from the first place that has it."""
    mirrors = [place.strip().rstrip("/") for place in os.environ.get(MIRROR, "").split(",")]
    places, reasons = [*filter(None, mirrors), _CENTRAL], []
    for place in places:
        try:
            content = _read(f"{place}/{jar.path}", deadline)
        except (OSError, HTTPException, ValueError) as error:
            reasons.append(f"{place}: {error}")
            continue
        found = sha256(content).hexdigest()
        if found == jar.sha256:
            return content
        reasons.append(f"{place}: the file there has the SHA-256 {found}, not {jar.sha256}")
    raise Unavailable(
        f"The jar {jar.package} could not be fetched ({'; '.join(reasons)}). Make the network reach one of these places, "
        f"name a mirror of Maven Central in {MIRROR}, or copy the file to {folder / jar.file}.",
        missing=jar.file,
    )


def _read(url: str, deadline: float) -> bytes:
    """All bytes of a file. Proxies and certificates are those of the environment, as everywhere in Python."""
    content = bytearray()
    with build_opener().open(url, timeout=JAR_STALL_SECONDS_MAX) as response:
        for chunk in iter(partial(response.read1, MIB), b""):
            content += chunk
            if len(content) > JAR_BYTES_MAX:
                raise OSError(f"the file there is larger than {JAR_BYTES_MAX // MIB} MiB")
            if time.monotonic() > deadline:
                raise OSError(f"no end after {JARS_FETCH_SECONDS_MAX:.0f} s")
    return bytes(content)
