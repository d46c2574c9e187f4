"""`restante console`: the console of a hub elsewhere, a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.server import free_port
from restante.server.serve import ServedHub, start
from tests.console.conftest import Guarded
from tests.console.test_streams import _stream
from tests.console.visiting import Browsing


@contextmanager
def _console(hub: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A console that runs, and its address."""
    port = free_port()
    command = [sys.executable, "-m", "restante", "console", "--hub", hub, "--port", str(port), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            host = options[1] if options else "127.0.0.1"
            assert process.stdout.readline() == f"The console of {hub} is at http://{host}:{port}/console\n"
            yield process, f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def test_a_hub_elsewhere_is_shown_and_changed(guarded: Guarded) -> None:
    with _console(guarded.running.url) as (process, address):
        browser = Browsing(address)
        assert browser.ask("GET", "/").headers["location"] == "/console"
        assert browser.ask("GET", "/v1/whoami").headers["location"] == "/console"
        assert "asks for a token" in browser.get("").page.text
        assert browser.sign_in(guarded.secrets["operator"]).status == 303
        shown = browser.get("")
        assert "Most waiting" in shown.page.text
        assert shown.headers["x-content-type-options"] == "nosniff"
        assert browser.get("/recipients/ada").status == 200
        assert browser.get("/groups/nosuch").status == 404
        made = browser.post("/tokens", {"seal": browser.seal(), "role": "reader", "note": "from elsewhere"})
        assert made.status == 201
        token = next(text for text in made.page.texts if text.startswith("rst_"))[4:12]
        assert browser.confirm("revoke", {"token": token}, token).status == 303

        strange = browser.ask("GET", "/console", headers={"host": "evil.example"})
        assert strange.status == 403

        with _stream(address, "", browser.cookie) as answer:
            assert answer.status == 200
            process.send_signal(signal.SIGTERM)
            assert answer.read().endswith(b"event: end\ndata: {}\n\n")
        process.wait(20)


def test_a_token_that_goes_to_another_machine_in_the_open_is_warned_of(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The address 0.0.0.0 is this machine, and none that a client knows as such."""
    monkeypatch.setenv("NO_PROXY", "*")
    hub = guarded.running.url.replace("127.0.0.1", "0.0.0.0")
    with _console(hub) as (process, address):
        browser = Browsing(address)
        seal = browser.get("/sign-in").page.fields()["seal"]
        assert capfd.readouterr().err == ""
        browser.post("/sign-in", {"seal": seal, "token": guarded.secrets["operator"]})
        browser.get("")
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    told = capfd.readouterr().err
    assert told.count(f"{hub} without encryption") == 1
    assert guarded.secrets["operator"] not in told


def test_an_open_hub_is_not_shown_to_other_machines(hub: ServedHub) -> None:
    command = [sys.executable, "-m", "restante", "console", "--hub", hub.url, "--host", "0.0.0.0"]
    ended = subprocess.run([*command, "--port", str(free_port())], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "invalid_settings: 0.0.0.0 can be reached from other machines" in ended.stderr
    with _console(hub.url, "--host", "0.0.0.0", "--insecure") as (_, address):
        assert "Most waiting" in Browsing(address).get("").page.text


def test_a_hub_that_is_open_later_is_not_shown_to_other_machines(tmp_path: Path) -> None:
    port = free_port()
    console = _console(f"http://127.0.0.1:{port}", "--host", "0.0.0.0")
    with console as (_, address), start(tmp_path / "data", port=port):
        shown = Browsing(address).get("/recipients/ada")
        assert shown.status == 503
        assert "the hub would not ask for tokens" in shown.page.text


def test_a_hub_that_is_not_there_is_a_page_that_says_so(hub: ServedHub) -> None:
    with _console(f"http://127.0.0.1:{free_port()}") as (_, address):
        shown = Browsing(address).get("/recipients/ada?state=waiting")
        assert shown.status == 503
        assert "does not answer" in shown.page.text
        assert "/console/recipients/ada?state=waiting" in shown.page.links
        assert "data-away" in shown.page.of("body")[0]
        assert Browsing(address).get("/sign-in").status == 503
