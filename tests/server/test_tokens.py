"""Tokens: worth something only whole, in time and unrevoked; kept only as hashes; changed by many without loss."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from restante import errors, limits
from restante.model.access.access import EVERYTHING, Grant, Role
from restante.server.access.tokens import TokenFile, id_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AT = NOW.timestamp()
SHAPE = re.compile(r"rst_[a-z0-9]{8}_[A-Za-z0-9_-]{43}")


class Hand:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "tokens.json"


@pytest.fixture
def tokens(path: Path) -> TokenFile:
    return TokenFile(path)


def test_a_token_grants_what_it_was_made_for(tokens: TokenFile) -> None:
    secret = tokens.create(roles=[Role.RECIPIENT, Role.PUBLISHER], origins=["b", "a"], recipients=["ada"], now=NOW)
    assert SHAPE.fullmatch(secret)
    assert tokens.grant_of(secret, AT) == Grant(
        str(id_of(secret)), frozenset({Role.PUBLISHER, Role.RECIPIENT}), frozenset({"a", "b"}), frozenset({"ada"})
    )


def test_no_two_tokens_are_alike(tokens: TokenFile) -> None:
    secrets = {tokens.create(roles=[Role.READER]) for _ in range(20)}
    assert len({secret[13:] for secret in secrets}) == len({id_of(secret) for secret in secrets}) == 20


def test_only_the_whole_token_is_worth_something(tokens: TokenFile) -> None:
    secret = tokens.create(roles=[Role.OPERATOR], now=NOW)
    other = tokens.create(roles=[Role.READER], now=NOW)
    last = "A" if secret[-1] != "A" else "B"
    wrong = [
        "",
        "rst_",
        secret[:-1],
        secret[:-1] + last,
        secret + "A",
        secret.upper(),
        f" {secret}",
        f"{secret}\n",
        secret[:12] + other[12:],
        f"rst_zzzzzzzz{secret[12:]}",
        "\ud800",
        "x" * 1_000_000,
    ]
    assert [tokens.grant_of(bearer, AT) for bearer in wrong] == [None] * len(wrong)
    assert tokens.grant_of(secret, AT) is not None


def test_a_token_is_worth_nothing_from_its_expiry_on(tokens: TokenFile) -> None:
    secret = tokens.create(roles=[Role.READER], expires_at=NOW + timedelta(seconds=60), now=NOW)
    assert tokens.grant_of(secret, AT + 59.9) is not None
    assert tokens.grant_of(secret, AT + 60) is None
    (token,) = tokens.listed()
    assert (token.state(NOW), token.state(NOW + timedelta(seconds=60))) == ("valid", "expired")


def test_a_revoked_token_is_worth_nothing_and_stays_listed(tokens: TokenFile) -> None:
    secret = tokens.create(roles=[Role.READER], now=NOW)
    first = tokens.revoke(str(id_of(secret)), now=NOW + timedelta(seconds=1))
    assert tokens.grant_of(secret, AT + 2) is None
    assert tokens.revoke(first.id, now=NOW + timedelta(seconds=5)) == first
    assert tokens.listed() == (first,)
    assert first.state(NOW) == "revoked"


def test_a_hub_whose_last_token_was_revoked_still_has_tokens(tokens: TokenFile) -> None:
    assert not tokens.any()
    tokens.revoke(str(id_of(tokens.create(roles=[Role.READER]))))
    assert tokens.any()


def test_the_file_has_hashes_only_and_is_private(tokens: TokenFile, path: Path) -> None:
    secret = tokens.create(roles=[Role.OPERATOR], note="night shift")
    text = path.read_text()
    assert secret not in text
    assert secret[13:] not in text
    assert json.loads(text)["tokens"][0]["note"] == "night shift"
    assert [stat.S_IMODE(file.stat().st_mode) for file in sorted(path.parent.iterdir())] == [0o600, 0o600]


def test_another_process_s_changes_are_seen_after_a_second(path: Path) -> None:
    clock = Hand()
    here, there = TokenFile(path, monotonic=clock), TokenFile(path)
    assert not here.any()
    secret = there.create(roles=[Role.READER], now=NOW)
    assert here.grant_of(secret, AT) is None
    clock.seconds += 1.0
    assert here.grant_of(secret, AT) is not None
    there.revoke(str(id_of(secret)))
    assert here.grant_of(secret, AT) is not None
    clock.seconds += 1.0
    assert here.grant_of(secret, AT) is None


def test_own_changes_are_seen_at_once(path: Path) -> None:
    tokens = TokenFile(path, monotonic=Hand())
    assert not tokens.any()
    secret = tokens.create(roles=[Role.READER], now=NOW)
    assert tokens.grant_of(secret, AT) is not None
    tokens.revoke(str(id_of(secret)))
    assert tokens.grant_of(secret, AT) is None


CHILD = """
import sys
from pathlib import Path
from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile, id_of
tokens = TokenFile(Path(sys.argv[1]))
sys.stdin.readline()
for turn in range(25):
    secret = tokens.create(roles=[Role.READER], note=sys.argv[2])
    if turn % 2:
        tokens.revoke(id_of(secret))
"""


def test_processes_that_create_and_revoke_at_once_lose_nothing(path: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(path)]
    children = [subprocess.Popen([*command, name], stdin=subprocess.PIPE, text=True) for name in ("a", "b", "c")]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.close()
    assert [child.wait(timeout=120) for child in children] == [0, 0, 0]
    listed = TokenFile(path).listed()
    for name in ("a", "b", "c"):
        states = [token.state(NOW) for token in listed if token.note == name]
        assert states == ["valid", "revoked"] * 12 + ["valid"]


def test_threads_that_share_a_file_lose_nothing(tokens: TokenFile) -> None:
    def work() -> None:
        secrets.extend(tokens.create(roles=[Role.READER], now=NOW) for _ in range(10))

    secrets: list[str] = []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(tokens.grant_of(secret, AT) for secret in secrets)
    assert len(tokens.listed()) == 40


@pytest.mark.parametrize(
    "wrong",
    [
        {"roles": []},
        {"roles": [Role.READER], "origins": ["a"]},
        {"roles": [Role.PUBLISHER], "recipients": ["a"]},
        {"roles": [Role.PUBLISHER], "origins": []},
        {"roles": [Role.PUBLISHER], "origins": [" "]},
        {"roles": [Role.PUBLISHER], "origins": ["x" * 65]},
        {"roles": [Role.RECIPIENT], "recipients": ["x" * 257]},
        {"roles": [Role.RECIPIENT], "recipients": [".."]},
        {"roles": [Role.RECIPIENT], "recipients": ["a\n"]},
        {"roles": [Role.READER], "note": "x" * 257},
        {"roles": [Role.READER], "expires_at": NOW},
        {"roles": [Role.READER], "expires_at": datetime(2040, 1, 1)},  # noqa: DTZ001  # that is what is wrong with it
    ],
)
def test_a_token_that_makes_no_sense_is_refused_and_nothing_is_stored(
    tokens: TokenFile, path: Path, wrong: dict[str, object]
) -> None:
    with pytest.raises(errors.InvalidRequest):
        tokens.create(**wrong, now=NOW)  # type: ignore[arg-type]
    assert not path.exists()


def test_an_unknown_id_is_refused_and_a_token_given_in_its_place_is_not_repeated(tokens: TokenFile) -> None:
    secret = tokens.create(roles=[Role.READER])
    with pytest.raises(errors.InvalidRequest, match="'nosuch'"):
        tokens.revoke("nosuch")
    with pytest.raises(errors.InvalidRequest) as caught:
        tokens.revoke(secret)
    assert secret[13:] not in str(caught.value)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1, "tokens": [{"id": "x"}]}', '{"format": 2}', "\x00"])
def test_a_damaged_file_lets_nobody_in_and_is_not_overwritten(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    tokens = TokenFile(path)
    with pytest.raises(errors.DataDamaged):
        tokens.grant_of("rst_aaaaaaaa_" + "A" * 43, AT)
    with pytest.raises(errors.DataDamaged):
        tokens.create(roles=[Role.READER])
    assert path.read_text() == content


def test_the_oldest_worthless_token_makes_room_and_valid_ones_never_do(
    tokens: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TOKENS_MAX", 3)
    first, second, third = [str(id_of(tokens.create(roles=[Role.READER]))) for _ in range(3)]
    with pytest.raises(errors.InvalidRequest, match="Revoke some"):
        tokens.create(roles=[Role.READER])
    tokens.revoke(second)
    fourth = str(id_of(tokens.create(roles=[Role.READER])))
    assert [token.id for token in tokens.listed()] == [first, third, fourth]


def test_what_is_left_of_an_interrupted_change_is_no_hindrance(tokens: TokenFile, path: Path) -> None:
    path.parent.mkdir()
    path.with_name("tokens.json.new").write_text("half")
    secret = tokens.create(roles=[Role.READER], now=NOW)
    assert TokenFile(path).grant_of(secret, AT) is not None
    assert not path.with_name("tokens.json.new").exists()


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.Unavailable, match="cannot be read or written"):
        TokenFile(tmp_path / "file" / "tokens.json").create(roles=[Role.READER])


@pytest.mark.parametrize(
    ("grant", "publish", "collect", "feed", "operate"),
    [
        (Grant("p", frozenset({Role.PUBLISHER})), "ab", "", False, False),
        (Grant("p", frozenset({Role.PUBLISHER}), origins=frozenset("a")), "a", "", False, False),
        (Grant("r", frozenset({Role.RECIPIENT})), "", "ab", False, False),
        (Grant("r", frozenset({Role.RECIPIENT}), recipients=frozenset("b")), "", "b", False, False),
        (Grant("f", frozenset({Role.READER})), "", "", True, False),
        (Grant("o", frozenset({Role.OPERATOR})), "ab", "ab", True, True),
        (Grant("n", frozenset()), "", "", False, False),
        (EVERYTHING, "ab", "ab", True, True),
    ],
)
def test_each_role_allows_what_it_is_for(grant: Grant, publish: str, collect: str, feed: bool, operate: bool) -> None:
    assert [name for name in "ab" if grant.may_publish(name)] == list(publish)
    assert [name for name in "ab" if grant.may_collect(name)] == list(collect)
    assert (grant.may_read_feed(), grant.may_operate()) == (feed, operate)
