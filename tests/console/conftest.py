"""Hubs with a console, shared by the tests: one that is open, and one that asks for tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import restante
from restante.console.web import slow_answers
from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.serve import ServedHub
from tests.console.visiting import Browsing, served


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    """An open hub with a few messages."""
    with served(tmp_path_factory.mktemp("console")) as running:
        with restante.connect(running.url) as own:
            own.send([{"recipient": name, "kind": "letter", "data": {"to": name}} for name in ("ada", "bob", "cyd")])
        yield running


@pytest.fixture
def browser(hub: ServedHub) -> Browsing:
    return Browsing(hub.url)


@dataclass
class Guarded:
    """A hub that asks for tokens, and one token of each kind."""

    running: ServedHub
    tokens: TokenFile
    secrets: dict[str, str]

    def browser(self, role: str) -> Browsing:
        """Somebody of this role, signed in."""
        made = Browsing(self.running.url)
        assert made.sign_in(self.secrets[role]).status == 303
        return made


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded-console") / "data"
    folder.mkdir()
    tokens = TokenFile(folder / "tokens.json")
    secrets = {role.value: tokens.create(roles=[role], note=f"a {role.value}") for role in Role}
    secrets["ada"] = tokens.create(roles=[Role.RECIPIENT], recipients=["ada"])
    with served(folder) as running:
        with restante.connect(running.url, token=secrets["operator"]) as own:
            own.send([{"recipient": name, "data": name} for name in ("ada", "bob")])
        yield Guarded(running, tokens, secrets)


@pytest.fixture(scope="session", autouse=True)
def _waiting_pages() -> Iterator[None]:
    """A machine with much to do is slow: pages wait for their lists here. Tests of slow answers have their own time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slow_answers, "CONSOLE_PATIENCE_SECONDS", 20.0)
        yield
