"""Schemathesis sends what the OpenAPI document allows and what it forbids, and holds every answer against it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.app import ROUTES
from restante.server.serve import ServedHub, start

_SECONDS_MAX = 60
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "use_after_free",
    "ensure_resource_availability",
    "ignored_auth",
)
"""All that there are, less two: valid data may well be refused (an id stored before with other content, a claim check
whose origin is not configured), and who may see what is in test_access.py."""


_SETTINGS = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, 503, 507]
"""
"""What refuses a request that is wrong. As by default, with 413: a body that is wrong may be too large, too."""


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServedHub, str]]:
    folder = tmp_path_factory.mktemp("hub")
    secret = TokenFile(folder / "tokens.json").create(roles=[Role.OPERATOR])
    with start(folder) as running:
        yield running, secret


def _document(url: str) -> dict[str, Any]:
    """The document, less what would change the meaning of the rest, or wait.

    With a `ce-` header a body is the data of an event, and may be anything; with an encoding it must be packed, which
    Schemathesis does not do; a wait is up to 25 s long; a correlation id may be any text, and Schemathesis ends where
    its HTTP client cannot write one as a header. Other tests have all of these.
    """
    with urllib.request.urlopen(f"{url}/openapi.json", timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    for operation in (operation for methods in found["paths"].values() for operation in methods.values()):
        operation["parameters"] = [
            one
            for one in operation["parameters"]
            if not one["name"].startswith(("ce-", "Content-Encoding", "wait", "seconds", "Restante-Correlation-Id"))
        ]
        operation.get("requestBody", {"content": {}})["content"].pop("*/*", None)
    return found


def test_no_request_gets_a_5xx_or_an_answer_that_is_not_documented(
    token: tuple[ServedHub, str], tmp_path: Path
) -> None:
    running, secret = token
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(_document(running.url)), encoding="utf-8")
    (tmp_path / "schemathesis.toml").write_text(_SETTINGS, encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", str(document), "--url", running.url),
            *("--checks", ",".join(_CHECKS), "--phases", "examples,coverage,fuzzing"),
            *("--max-examples", "10", "--seed", "7", "--generation-deterministic"),
            *("--header", f"Authorization: Bearer {secret}", "--no-shrink", "--continue-on-failure", "--no-color"),
            *("--suppress-health-check", "all"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=4 * _SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-60_000:] + done.stderr[-4_000:]
    assert f"Tested: {len(ROUTES)}\n" in done.stdout
    generated = re.search(r"(\d+) generated, \1 passed", done.stdout)
    assert generated is not None, done.stdout
    assert int(generated[1]) > 1_000
