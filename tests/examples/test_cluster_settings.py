"""The settings of `examples/cluster`, run: three nodes by each file, on a real PostgreSQL, as one hub."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml  # type: ignore[import-untyped]  # it has no types

import restante
from bench.server import free_port
from restante.assembly import found_database
from restante.settings import Settings
from tests.cli.places import run
from tests.postgresql_server import schema_address
from tests.waiting import wait_until

FOLDER = Path(__file__).parents[2] / "examples" / "cluster"
CHECKOUT = Path(__file__).parents[2]
SECONDS = 120
NAMES = [f"recipient-{number}" for number in range(20)]


class ExampleNode:
    """A node as a file says it; only where it is differs: addresses, ports, and folders of this machine."""

    def __init__(self, place: Path, database: str, arguments: list[str], said: Mapping[str, str]) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        data = place / "data"
        data.mkdir(parents=True, exist_ok=True)
        here = {
            "RESTANTE_STORE_URL": database,
            "RESTANTE_STORE_PASSWORD_FILE": str(place.parent / "database"),
            "RESTANTE_CLUSTER__SECRET_FILE": str(place.parent / "cluster"),
            "RESTANTE_CLUSTER__LISTEN": f"0.0.0.0:{free_port()}",
            "RESTANTE_CLUSTER__ADVERTISE": "127.0.0.1",
        }
        assert set(said) <= {*here, "RESTANTE_CLUSTER__NODE", "RESTANTE_SERVER__HOST", "RESTANTE_SERVER__ACCESS"}
        environment = {**os.environ, **said, **here, "RESTANTE_SERVER__PORT": str(port)}
        self.log, self.data = place / "log", data
        command = [str(data) if part == "/data" else part for part in arguments]
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "restante", *command],
                cwd=CHECKOUT,
                env={**environment, "PYTHONPATH": str(CHECKOUT / "src")},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def served(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("Restante serves "), self.log.read_text()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(SECONDS) == 0, self.log.read_text()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the secrets of both files."""
    for name in ("database", "cluster"):
        (tmp_path / name).write_text("a secret that is long enough\n")
    return tmp_path


@pytest.fixture
def database(place: Path) -> str:
    address = schema_address(place)
    found_database(address, Settings(), shards=6, partitions=16)
    return address


@pytest.fixture
def nodes() -> Iterator[list[ExampleNode]]:
    started: list[ExampleNode] = []
    yield started
    for node in started:
        node.stop()


def are_one_hub(nodes: list[ExampleNode], token: str | None = None) -> None:
    """What one takes, the others give; each has its share; probes are answered."""
    for node in nodes:
        node.served()
    with restante.connect(nodes[0].url, token=token) as hub:
        hub.producer.send([restante.Message(recipient=name, text="hello") for name in NAMES])
        wait_until(lambda: len({own.node for own in hub.nodes().shards} - {None}) == len(nodes))
    for node in nodes[1:]:
        for path in ("/livez", "/readyz"):
            with urlopen(f"{node.url}{path}", timeout=SECONDS) as answer:
                assert answer.status == 200
    with restante.connect(nodes[-1].url, token=token) as hub:
        for name in NAMES:
            bundle = hub.recipient(name).peek()
            assert bundle is not None
            assert bundle.dequeue().messages == 1


@pytest.mark.wire
def test_the_services_of_compose_are_one_hub(place: Path, database: str, nodes: list[ExampleNode]) -> None:
    services: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    for name, service in services.items():
        if name != "database":
            nodes.append(ExampleNode(place / name, database, service["command"], service["environment"]))
    assert len(nodes) == 3
    are_one_hub(nodes)


@pytest.mark.wire
def test_the_pods_of_kubernetes_are_one_hub(place: Path, database: str, nodes: list[ExampleNode]) -> None:
    made = run("tokens", "create", "--role", "operator", "--data", str(place / "tokens"), "--new", "--yes", "--json")
    objects = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))
    (pods,) = (one["spec"] for one in objects if (one["kind"], one["metadata"]["name"]) == ("StatefulSet", "restante"))
    (container,) = pods["template"]["spec"]["containers"]
    said = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    for number in range(pods["replicas"]):
        pod = f"restante-{number}"
        arguments = [part.replace("$(POD)", pod) for part in container["args"]]
        arguments[arguments.index("--advertise") + 1] = "127.0.0.1"
        (place / pod / "data").mkdir(parents=True)
        (place / pod / "data" / "tokens.json").write_bytes((place / "tokens" / "tokens.json").read_bytes())
        nodes.append(ExampleNode(place / pod, database, arguments, said))
    are_one_hub(nodes, token=yaml.safe_load(made.stdout)["token"])
