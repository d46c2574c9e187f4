"""The OpenAPI document tells of every route and of nothing else, and the pages are made from it."""

from __future__ import annotations

import base64
import hashlib
import html
import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import jsonschema_rs
import pytest

from restante.model.access.access import Role
from restante.model.publishing.validation import FIELDS, READ_ONLY
from restante.server.app import ROUTES
from restante.server.openapi import problems
from restante.server.openapi.document import SUBJECTS
from restante.server.route_table import Route
from restante.server.serve import ServedHub, start
from restante.wire.problems import CODES, TYPE_PREFIX, status_of


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    with start(tmp_path_factory.mktemp("hub")) as running:
        yield running


@pytest.fixture(scope="module")
def description(hub: ServedHub) -> dict[str, Any]:
    with urllib.request.urlopen(f"{hub.url}/openapi.json", timeout=30) as answer:
        assert answer.headers["content-type"] == "application/json"
        found: dict[str, Any] = json.load(answer)
    return found


def _page(hub: ServedHub, path: str) -> str:
    with urllib.request.urlopen(hub.url + path, timeout=30) as answer:
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return str(answer.read().decode())


def _operation(description: dict[str, Any], route: Route) -> dict[str, Any]:
    found: dict[str, Any] = description["paths"][route.path][route.method.lower()]
    return found


def test_the_document_has_every_route_and_nothing_else(description: dict[str, Any]) -> None:
    told = {(method.upper(), path) for path, methods in description["paths"].items() for method in methods}
    assert told == {(route.method, route.path) for route in ROUTES}


def test_nothing_is_described_that_is_not_served() -> None:
    described = {(operation.method, operation.path) for subject in SUBJECTS for operation in subject.operations}
    assert described == {(route.method, route.path) for route in ROUTES}


def test_the_document_is_openapi_3_1(description: dict[str, Any]) -> None:
    assert description["openapi"] == "3.1.0"
    for name, schema in description["components"]["schemas"].items():
        assert jsonschema_rs.meta.is_valid({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}), name


def test_every_reference_leads_somewhere(description: dict[str, Any]) -> None:
    references = set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(description)))
    assert len(references) > 20
    for reference in references:
        found = description
        for name in reference.split("/"):
            found = found[name]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_roles_are_those_of_the_table(description: dict[str, Any], route: Route) -> None:
    operation = _operation(description, route)
    if route.roles is None:
        assert operation["security"] == []
        assert "401" not in operation["responses"]
    else:
        assert operation["security"] == [{"bearer": []}]
        assert operation["x-roles"] == sorted(role.value for role in route.roles | {Role.OPERATOR})
        assert {"401", "403"} <= operation["responses"].keys()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_parameters_are_those_of_the_path_and_the_table(description: dict[str, Any], route: Route) -> None:
    parameters = _operation(description, route)["parameters"]
    assert {one["name"] for one in parameters if one["in"] == "query"} == route.query
    assert {one["name"] for one in parameters if one["in"] == "path"} == set(re.findall(r"{(\w+)}", route.path))


def test_every_code_is_in_the_schema_of_problems(description: dict[str, Any]) -> None:
    assert description["components"]["schemas"]["Problem"]["properties"]["code"]["enum"] == list(CODES)


def test_every_code_that_the_hub_sends_over_http_is_an_answer_of_a_route(description: dict[str, Any]) -> None:
    told = set()
    for answers in (
        description["components"]["responses"],
        *(operation["responses"] for methods in description["paths"].values() for operation in methods.values()),
    ):
        for status, answer in answers.items():
            for code in answer.get("content", {}).get("application/problem+json", {}).get("examples", {}):
                assert status_of(code) == int(status)
                told.add(code)
    # These stop a hub from starting, or are told otherwise: a peek answers 204 for an origin that did not deliver.
    elsewhere = {"data_locked", "extra_missing", "format_unsupported", "invalid_settings", "origin_did_not_deliver"}
    assert told == set(problems.ADVICE) - elsewhere


def test_a_message_has_the_fields_of_the_model(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    sent = {*FIELDS, "data_base64"}
    assert schemas["Message"]["properties"].keys() == {*sent, "recipients"}
    assert schemas["ShownMessage"]["properties"].keys() == (sent | set(READ_ONLY)) - {"source_position"}


def test_every_answer_has_the_correlation_id(description: dict[str, Any]) -> None:
    for methods in description["paths"].values():
        for operation in methods.values():
            for answer in operation["responses"].values():
                assert "Restante-Correlation-Id" in answer["headers"]


class _Page(HTMLParser):
    """The anchors, links and loaded things of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        if tag not in {"meta", "br"}:
            self.open.append(tag)
        assert "src" not in given
        if anchor := given.get("id"):
            assert anchor not in self.anchors, f"{anchor} is there twice"
            self.anchors.add(anchor)
        if link := given.get("href"):
            self.links.add(link)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_pages_load_nothing_from_elsewhere_and_all_their_links_lead_somewhere(hub: ServedHub) -> None:
    pages = {path: _Page(_page(hub, path)) for path in ("/docs", "/docs/problems")}
    for path, page in pages.items():
        assert not page.tags & {"link", "img", "iframe"}
        for link in page.links:
            target, _, anchor = link.partition("#")
            if target not in {"/openapi.json", "/asyncapi.json"}:
                assert anchor == "" or anchor in pages[target or path].anchors, link


@pytest.mark.parametrize("path", ["/docs", "/docs/problems"])
def test_a_page_runs_its_own_script_and_no_other(hub: ServedHub, path: str) -> None:
    with urllib.request.urlopen(f"{hub.url}{path}", timeout=30) as answer:
        policy, page = answer.headers["Content-Security-Policy"], answer.read().decode()
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert page.count("<script") == 1
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'; connect-src 'self'" in policy
    assert "innerHTML" not in script


def test_an_example_can_be_tried_on_the_page_as_it_stands_there(hub: ServedHub) -> None:
    tried = [json.loads(html.unescape(text)) for text in re.findall(r' data-try="([^"]*)"', _page(hub, "/docs"))]
    assert len(tried) > len(ROUTES) / 2
    sending = next(one for one in tried if (one["method"], one["target"]) == ("POST", "/v1/messages"))
    headers = sending["headers"] | {"Origin": hub.url}
    request = urllib.request.Request(
        f"{hub.url}{sending['target']}", method="POST", headers=headers, data=sending["body"].encode()
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        receipt = json.load(answer)
    assert receipt["accepted"] == 1


def test_the_page_begins_with_sending_and_collecting(hub: ServedHub, description: dict[str, Any]) -> None:
    page = html.unescape(_page(hub, "/docs"))
    steps = [
        "<h1>Restante</h1>",
        '-d \'{"recipient": "alice", "text": "hello"}\'',
        f"curl '{hub.url}/v1/recipients/alice/peek'",
        f"curl -X DELETE '{hub.url}/v1/recipients/alice/bundles/",
        "Rules of every route</h2>",
    ]
    places = [page.index(step) for step in steps]
    assert places == sorted(places)
    assert [tag["name"] for tag in description["tags"][:2]] == ["Publishing", "Collecting"]


def test_every_route_is_on_the_page_with_a_command_to_copy(hub: ServedHub, description: dict[str, Any]) -> None:
    page = _page(hub, "/docs")
    for route in ROUTES:
        assert f"<code>{route.path}</code>" in page
        method = "" if route.method == "GET" else f"-X {route.method} "
        target = _operation(description, route)["x-examples"][0]["request"]["target"]
        assert f"curl {method}'{hub.url}{html.escape(target, quote=False)}" in page
    assert "/v1/publish" in page


@pytest.mark.parametrize(
    ("headers", "address"),
    [
        ({"Host": "localhost:9000"}, "http://localhost:9000"),
        ({"Host": "[::1]:9000"}, "http://[::1]:9000"),
        ({"Host": "localhost", "X-Forwarded-Proto": "https"}, "https://localhost"),
    ],
)
def test_the_examples_name_the_hub_as_its_reader_does(hub: ServedHub, headers: dict[str, str], address: str) -> None:
    request = urllib.request.Request(f"{hub.url}/docs", headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        page = answer.read().decode()
    assert f"curl '{address}/livez'" in page
    assert "127.0.0.1:8470" not in page


def test_an_address_that_is_none_is_not_repeated(hub: ServedHub) -> None:
    link = http.client.HTTPConnection(hub.url.removeprefix("http://"), timeout=30)
    link.putrequest("GET", "/docs", skip_host=True)
    link.putheader("Host", "localhost'<script>")
    link.endheaders()
    page = link.getresponse().read().decode()
    link.close()
    assert "<script" not in page
    assert "localhost&#x27;" not in page


def test_the_type_of_every_problem_leads_to_its_place_on_a_page(hub: ServedHub) -> None:
    path, _, _ = TYPE_PREFIX.partition("#")
    assert set(CODES) <= _Page(_page(hub, path)).anchors


def test_the_type_in_a_problem_is_that_link(hub: ServedHub) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{hub.url}/nowhere", timeout=30)
    with caught.value as answer:
        assert json.load(answer)["type"] == "/docs/problems#not_found"
