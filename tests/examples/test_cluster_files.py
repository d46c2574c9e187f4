"""The files of `examples/cluster`: what they say is what the program takes, and the parts fit together."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import typer
import yaml  # type: ignore[import-untyped]  # it has no types

from restante.cli import app
from restante.server.app import ROUTES
from restante.settings.file import load

FOLDER = Path(__file__).parents[2] / "examples" / "cluster"
NODES = ("a", "b", "c")


def options_of(arguments: list[str]) -> dict[str, Any]:
    """`restante serve` with these arguments, as far as they are read."""
    command, *rest = arguments
    group: Any = typer.main.get_command(app)
    return dict(group.commands[command].make_context(command, rest).params)


def settings_of(environment: Mapping[str, str]) -> Any:
    """As the program reads them: a variable that is none is an error."""
    return load(None, dict(environment)).settings


@pytest.mark.parametrize("name", NODES)
def test_each_service_of_compose_is_a_node_with_its_own_name(name: str) -> None:
    document = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    service = document["services"][name]
    options, settings = options_of(service["command"]), settings_of(service["environment"])
    assert options["insecure"]
    assert (settings.cluster.node, settings.cluster.advertise) == (name, name)
    assert settings.store_url == "postgresql://mail@database/mail"
    secrets = {f"/run/secrets/{secret}" for secret in service["secrets"]}
    assert {settings.store_password_file, settings.cluster.secret_file} == secrets
    assert set(service["secrets"]) <= set(document["secrets"])
    (port,) = service["ports"]
    assert port.endswith(f":{settings.server.port}")
    assert set(service["depends_on"]) <= set(document["services"])


def test_no_two_services_have_the_same_port() -> None:
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    assert len({services[name]["ports"][0] for name in NODES}) == len(NODES)


@pytest.fixture(scope="module")
def composed() -> Any:
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())


@pytest.fixture(scope="module")
def compose_schema() -> jsonschema_rs.Draft7Validator:
    """What a file of Compose may say; anything else is refused."""
    return jsonschema_rs.Draft7Validator(json.loads((Path(__file__).parent / "compose.schema.json").read_text()))


def test_the_compose_file_is_what_the_specification_takes(
    composed: Any, compose_schema: jsonschema_rs.Draft7Validator
) -> None:
    assert [error.message for error in compose_schema.iter_errors(composed)] == []


@pytest.mark.parametrize("fault", ["a word of no meaning", "a text for a list", "no such condition", "another kind"])
def test_a_fault_in_the_compose_file_would_be_found(
    composed: Any, compose_schema: jsonschema_rs.Draft7Validator, fault: str
) -> None:
    spoilt = copy.deepcopy(composed)
    node = spoilt["services"]["a"]
    if fault == "a word of no meaning":
        node["stop_grace"] = "45s"
    elif fault == "a text for a list":
        node["ports"] = "127.0.0.1:8470:8470"
    elif fault == "no such condition":
        node["depends_on"]["database"]["condition"] = "service_ready"
    else:
        spoilt["service"] = spoilt.pop("services")
    assert not compose_schema.is_valid(spoilt)


@pytest.fixture(scope="module")
def objects() -> dict[tuple[str, str], Any]:
    documents = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


@pytest.fixture(scope="module")
def schema() -> jsonschema_rs.Draft202012Validator:
    """What objects of Kubernetes may say; anything else is refused."""
    return jsonschema_rs.Draft202012Validator(
        json.loads((Path(__file__).parent / "kubernetes.schema.json").read_text())
    )


def test_the_objects_of_kubernetes_are_what_it_takes(
    objects: dict[tuple[str, str], Any], schema: jsonschema_rs.Draft202012Validator
) -> None:
    assert [(name, error.message) for name, one in objects.items() for error in schema.iter_errors(one)] == []


@pytest.mark.parametrize("fault", ["a word of no meaning", "a text for a number", "something missing", "another kind"])
def test_a_fault_in_them_would_be_found(
    objects: dict[tuple[str, str], Any], schema: jsonschema_rs.Draft202012Validator, fault: str
) -> None:
    spoilt = copy.deepcopy(objects["StatefulSet", "restante"])
    pod = spoilt["spec"]["template"]["spec"]
    if fault == "a word of no meaning":
        pod["terminationGracePeriod"] = 45
    elif fault == "a text for a number":
        pod["containers"][0]["ports"][0]["containerPort"] = "8470"
    elif fault == "something missing":
        del spoilt["spec"]["selector"]
    else:
        spoilt["kind"] = "Statefulset"
    assert not schema.is_valid(spoilt)


def test_the_nodes_of_kubernetes_are_named_and_found(objects: dict[tuple[str, str], Any]) -> None:
    nodes = objects["StatefulSet", "restante"]["spec"]
    (container,) = nodes["template"]["spec"]["containers"]
    options = options_of([part.replace("$(POD)", "restante-0") for part in container["args"]])
    assert options["node"] == "restante-0"
    assert options["advertise"] == f"restante-0.{nodes['serviceName']}"
    settings = settings_of(
        {one["name"]: one["value"] for one in container["env"] if one["name"].startswith("RESTANTE_")}
    )
    host, _, port = settings.cluster.listen.rpartition(":")
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert (host, ports) == ("0.0.0.0", {"http": settings.server.port, "nodes": int(port)})
    assert ("Service", settings.store_url.rpartition("@")[2].partition("/")[0]) in objects
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"] for volume in nodes["template"]["spec"]["volumes"]}


def test_probes_ask_for_routes_that_are_there(objects: dict[tuple[str, str], Any]) -> None:
    (container,) = objects["StatefulSet", "restante"]["spec"]["template"]["spec"]["containers"]
    asked = {container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe", "startupProbe")}
    assert asked <= {route.path for route in ROUTES}


def test_services_select_what_there_is(objects: dict[tuple[str, str], Any]) -> None:
    labels = [
        one["spec"]["template"]["metadata"]["labels"] for (kind, _), one in objects.items() if kind == "StatefulSet"
    ]
    for (kind, name), one in objects.items():
        assert one["apiVersion"], name
        if kind == "Service":
            assert one["spec"]["selector"] in labels
        if kind == "StatefulSet":
            assert ("Service", one["spec"]["serviceName"]) in objects
            assert one["spec"]["selector"]["matchLabels"] == one["spec"]["template"]["metadata"]["labels"]
