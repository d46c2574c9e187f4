"""`restante tokens`: made and shown once, listed without the secret, revoked."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from restante import errors
from restante.cli.serving.tokens import app
from restante.model.access.access import Grant, Role
from restante.server.access.tokens import TokenFile, id_of
from restante.server.serve import start

SHAPE = re.compile(r"rst_[a-z0-9]{8}_[A-Za-z0-9_-]{43}")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "data" / "blobs").mkdir(parents=True)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def made(*arguments: str) -> str:
    result = run("create", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def grant_of(secret: str, data: str = "data") -> Grant | None:
    return TokenFile(Path(data) / "tokens.json").grant_of(secret, datetime.now(UTC).timestamp())


def test_the_token_alone_is_on_standard_output_with_a_warning_beside_it() -> None:
    result = run("create", "--role", "operator")
    assert SHAPE.fullmatch(result.stdout.removesuffix("\n"))
    assert "it is not shown again" in result.stderr
    assert result.stdout.strip() not in result.stderr


def test_a_token_is_for_what_was_asked() -> None:
    arguments = "--role publisher --role recipient --origin a --origin b --recipient x --data mail --new --note night"
    secret = made(*arguments.split())
    roles = frozenset({Role.PUBLISHER, Role.RECIPIENT})
    assert grant_of(secret, "mail") == Grant(str(id_of(secret)), roles, frozenset("ab"), frozenset("x"))


def test_a_publisher_of_all_origins_is_said_to_be_one() -> None:
    assert "every origin" in run("create", "--role", "publisher").stderr
    assert "every origin" not in run("create", "--role", "publisher", "--origin", "a").stderr


def test_a_recipient_s_token_names_recipients_or_says_all() -> None:
    result = run("create", "--role", "recipient")
    assert result.exit_code == 2
    assert "--all-recipients" in result.stderr
    grant = grant_of(made("--role", "recipient", "--all-recipients"))
    assert grant is not None
    assert grant.may_collect("anybody")


def test_a_worker_is_for_groups_that_are_named_or_for_all() -> None:
    grant = grant_of(made("--role", "worker", "--group", "billing"))
    assert grant is not None
    assert grant.may_work("billing")
    assert not grant.may_work("shop")
    everywhere = grant_of(made("--role", "worker", "--all-groups"))
    assert everywhere is not None
    assert everywhere.may_work("shop")


@pytest.mark.parametrize(
    "arguments",
    [
        "--role recipient --recipient x --all-recipients",
        "--role reader --all-recipients",
        "--role reader --origin a",
        "--role reader --recipient a",
        "--role reader --group a",
        "--role reader --all-groups",
        "--role worker",
        "--role worker --group a --all-groups",
        "--role reader --expires 30",
        "--role reader --expires 0d",
        "--role reader --expires -1d",
        "--role reader --expires 999999999w",
        "--role reader --expires never",
    ],
)
def test_what_makes_no_sense_is_refused_as_not_understood(arguments: str) -> None:
    result = run("create", *arguments.split())
    assert result.exit_code == 2
    assert not Path("data/tokens.json").exists()


@pytest.mark.parametrize("arguments", ["create", "create --role king", "revoke", "nosuch"])
def test_what_is_not_understood_exits_with_2(arguments: str) -> None:
    assert run(*arguments.split()).exit_code == 2


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("90m", timedelta(minutes=90)),
        ("12h", timedelta(hours=12)),
        ("30d", timedelta(days=30)),
        ("4w", timedelta(weeks=4)),
    ],
)
def test_a_token_expires_after_the_time_given(text: str, period: timedelta) -> None:
    began = datetime.now(UTC).replace(microsecond=0)
    answer = json.loads(made("--role", "reader", "--expires", text, "--json"))
    created, expires = (datetime.fromisoformat(answer[name]) for name in ("created_at", "expires_at"))
    assert expires - created == period
    assert began <= created <= datetime.now(UTC)


def test_create_speaks_json_with_the_secret_and_without_the_hash() -> None:
    answer = json.loads(made("--role", "publisher", "--origin", "a", "--note", "night", "--json"))
    assert grant_of(answer["token"]) is not None
    assert (answer["id"], answer["roles"], answer["origins"]) == (id_of(answer["token"]), ["publisher"], ["a"])
    assert (answer["note"], answer["state"], answer["expires_at"]) == ("night", "valid", None)
    assert "sha256" not in answer


def test_the_list_shows_all_but_the_secret() -> None:
    kept = made("--role", "publisher", "--origin", "a", "--note", "night shift")
    gone = made("--role", "operator", "--expires", "30d")
    run("revoke", str(id_of(gone)))
    result = run("list")
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    assert "valid" in lines[str(id_of(kept))]
    assert "publisher of a" in lines[str(id_of(kept))]
    assert "night shift" in lines[str(id_of(kept))]
    assert "revoked" in lines[str(id_of(gone))]
    assert kept[13:] not in result.stdout
    listed = json.loads(run("list", "--json").stdout)["tokens"]
    assert [(token["id"], token["state"]) for token in listed] == [(id_of(kept), "valid"), (id_of(gone), "revoked")]
    assert all("sha256" not in token for token in listed)


def test_an_empty_list_is_said_to_be_one() -> None:
    assert run("list").stdout == "There are no tokens in data.\n"
    assert json.loads(run("list", "--json").stdout) == {"tokens": []}


def test_a_folder_that_is_not_there_is_an_error_and_is_not_made(folder: Path) -> None:
    for arguments in (["list"], ["revoke", "abcdefgh"]):
        assert isinstance(run(*arguments, "--data", "nosuch").exception, errors.InvalidRequest)
    assert not (folder / "nosuch").exists()


@pytest.mark.parametrize("there", [True, False])
def test_a_token_for_a_folder_that_no_hub_uses_is_refused(folder: Path, there: bool) -> None:
    if there:
        (folder / "nowhere").mkdir()
    result = run("create", "--role", "reader", "--data", "nowhere")
    assert isinstance(result.exception, errors.InvalidRequest)
    assert "--new" in result.exception.message
    assert not (folder / "nowhere" / "tokens.json").exists()
    assert (folder / "nowhere").exists() is there


def at_a_terminal(answer: bytes) -> subprocess.CompletedProcess[str]:
    """The command as a person runs it, who answers what is asked."""
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    command = [sys.executable, "-m", "restante", "tokens", "create", "--role", "reader"]
    try:
        return subprocess.run(command, stdin=theirs, capture_output=True, text=True, timeout=60, check=False)
    finally:
        os.close(ours)
        os.close(theirs)


def test_the_first_token_of_a_running_hub_is_not_made_unasked(folder: Path) -> None:
    with start(folder / "data"):
        result = run("create", "--role", "reader")
        assert isinstance(result.exception, errors.InvalidRequest)
        assert "--yes" in result.exception.message
        refused = at_a_terminal(b"n\n")
        assert (refused.returncode, refused.stdout, "shuts out" in refused.stderr) == (1, "", True)
        assert not TokenFile(folder / "data" / "tokens.json").any()
        assert grant_of(at_a_terminal(b"y\n").stdout.strip()) is not None
        assert made("--role", "reader")


def test_whoever_says_yes_is_not_asked(folder: Path) -> None:
    with start(folder / "data"):
        assert made("--role", "reader", "--yes")


def test_a_token_may_come_before_its_hub_and_others_after_it() -> None:
    first = made("--role", "operator", "--data", "mail", "--new")
    second = made("--role", "reader", "--data", "mail")
    assert grant_of(first, "mail") is not None
    assert grant_of(second, "mail") is not None


def test_a_dry_run_revokes_nothing_and_says_what_would_be_revoked() -> None:
    secret = made("--role", "reader")
    result = run("revoke", str(id_of(secret)), "--dry-run")
    assert result.stdout == f"Would revoke {id_of(secret)}: reader.\n"
    assert grant_of(secret) is not None
    assert run("revoke", str(id_of(secret))).stdout == f"Revoked {id_of(secret)}: reader.\n"
    assert grant_of(secret) is None


def test_revoke_speaks_json() -> None:
    identity = str(id_of(made("--role", "reader")))
    tried = json.loads(run("revoke", identity, "--dry-run", "--json").stdout)
    done = json.loads(run("revoke", identity, "--json").stdout)
    assert (tried["dry_run"], tried["state"], done["dry_run"], done["state"]) == (True, "valid", False, "revoked")


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
def test_an_unknown_id_is_an_error(dry_run: list[str]) -> None:
    made("--role", "reader")
    assert isinstance(run("revoke", "nosuch", *dry_run).exception, errors.InvalidRequest)


@pytest.mark.parametrize("command", [[], ["create"], ["list"], ["revoke"]])
def test_help_teaches_by_example(command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "restante tokens" in result.output
    assert "Exit codes: 0 all is well" in " ".join(result.output.split())
