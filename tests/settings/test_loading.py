"""Settings from a file and the environment: what counts, where it came from, and every problem with its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante import errors, limits
from restante.settings import (
    ActionSettings,
    BackplaneSettings,
    GroupSettings,
    HealthBounds,
    LiveSettings,
    OriginGroupSettings,
    OriginSettings,
    ServerSettings,
    Settings,
)
from restante.settings.cluster import ClusterSettings
from restante.settings.file import key_lines, load, load_settings
from restante.settings.tree import KeyPath, dotted

Writer = Callable[[str], Path]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Writer:
    """Writes `restante.toml` in the working directory."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> Path:
        path = Path("restante.toml")
        path.write_bytes(text.encode())
        return path

    return write


def problems_of(path: Path | None, environ: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(errors.InvalidSettings) as caught:
        load(path, environ or {})
    problems = caught.value.details["problems"]
    assert isinstance(problems, list)
    assert caught.value.message.split("\n")[1:] == problems
    return problems


def test_without_file_and_environment_all_is_default() -> None:
    assert load_settings(None, {"PATH": "/bin", "HOME": "/"}) == Settings()


def test_a_file_says_everything(file: Writer) -> None:
    path = file("""
        housekeeping_seconds = 5
        filing = false

        [origins.aggregations]
        content_url = "https://files.example/content"
        dequeued_url = "https://files.example/dequeued"
        group = "aggregations"

        [origins.plain]

        [origin_groups.master_data]
        strict_order = true

        [server]
        port = 9_000
        access = "tokens"
    """)
    assert load_settings(path, {}) == Settings(
        housekeeping_seconds=5.0,
        filing=False,
        origins={
            "aggregations": OriginSettings(
                content_url="https://files.example/content",
                dequeued_url="https://files.example/dequeued",
                group="aggregations",
            ),
            "plain": OriginSettings(),
        },
        origin_groups={"master_data": OriginGroupSettings(strict_order=True)},
        server=ServerSettings(port=9_000, access="tokens"),
    )


def test_the_environment_goes_before_the_file(file: Writer) -> None:
    path = file('[server]\nport = 1\nlog = "text"\n[origins.billing]\ngroup = "a"\n')
    settings = load_settings(path, {"RESTANTE_SERVER__PORT": "2", "RESTANTE_ORIGINS__billing__GROUP": "b"})
    assert (settings.server.port, settings.server.log) == (2, "text")
    assert settings.group_of("billing") == "b"


def test_a_variable_may_mend_what_is_wrong_in_the_file(file: Writer) -> None:
    assert load_settings(file("[server]\nport = 99999\n"), {"RESTANTE_SERVER__PORT": "2"}).server.port == 2


def test_fields_are_found_in_any_case_and_names_are_kept_as_they_are() -> None:
    settings = load_settings(
        None,
        {
            "RESTANTE_origins__Billing__Group": "Money",
            "RESTANTE_ORIGINS__a__b__GROUP": "Money",
            "RESTANTE_ORIGIN_GROUPS__Money__strict_order": "true",
            "RESTANTE_HOUSEKEEPING_SECONDS": "0.5",
        },
    )
    assert settings.origins == {"Billing": OriginSettings(group="Money"), "a__b": OriginSettings(group="Money")}
    assert settings.strict_order("Money")
    assert settings.housekeeping_seconds == 0.5


def test_a_text_is_taken_as_it_is_and_a_number_read_as_toml() -> None:
    settings = load_settings(
        None, {"RESTANTE_ORIGINS__a__GROUP": "12", "RESTANTE_SERVER__PORT": " 0x10 ", "RESTANTE_FILING": "false"}
    )
    assert (settings.origins["a"].group, settings.server.port, settings.filing) == ("12", 16, False)


@pytest.mark.parametrize("text", ["10.1.0.0/16, fd00::/8", '["10.1.0.0/16", "fd00::/8"]'])
def test_a_list_is_written_with_commas_or_as_in_toml(file: Writer, text: str) -> None:
    path = file('[webhooks]\nallowed_networks = ["127.0.0.0/8"]\n')
    assert load_settings(path, {}).webhooks.allowed_networks == ("127.0.0.0/8",)
    given = load_settings(path, {"RESTANTE_WEBHOOKS__ALLOWED_NETWORKS": text})
    assert given.webhooks.allowed_networks == ("10.1.0.0/16", "fd00::/8")
    assert load_settings(path, {"RESTANTE_WEBHOOKS__ALLOWED_NETWORKS": ""}).webhooks.allowed_networks == ()


def test_a_list_is_one_text_with_commas_between() -> None:
    variables = {"RESTANTE_SERVER__HOSTS": "hub, fe80::1,", "RESTANTE_SERVER__ORIGINS": "https://app.example.org:8443"}
    server = load_settings(None, variables).server
    assert (server.hosts, server.origins) == (("hub", "fe80::1"), ("https://app.example.org:8443",))
    assert load_settings(None, {"RESTANTE_SERVER__HOSTS": ""}).server.hosts == ()
    (problem,) = problems_of(None, {"RESTANTE_SERVER__HOSTS": "hub:80"})
    assert problem.startswith("environment RESTANTE_SERVER__HOSTS: server.hosts: must be a list of host names")


def test_batches_are_set_from_the_environment() -> None:
    environment = {
        "RESTANTE_OPEN_BATCH_RETENTION_SECONDS": "60",
        "RESTANTE_SEALED_BATCH_RETENTION_SECONDS": "86_400.5",
        "RESTANTE_COUNTERS_URL": "redis://counters.example:6379/1",
    }
    assert load_settings(None, environment) == Settings(
        open_batch_retention_seconds=60.0,
        sealed_batch_retention_seconds=86_400.5,
        counters_url="redis://counters.example:6379/1",
    )


def test_variables_of_programs_are_no_settings() -> None:
    programs = ("RESTANTE_SETTINGS", "RESTANTE_HUB", "RESTANTE_TOKEN", "RESTANTE_SPARK_REPOSITORIES")
    names = (*programs, "RESTANTE_COUNTERS_PASSWORD", "RESTANTE_LONG")
    assert load_settings(None, dict.fromkeys(names, "x")) == Settings()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("RESTANTE_SERVER__PROT", "did you mean RESTANTE_SERVER__PORT?"),
        ("RESTANTE_FILLING", "did you mean RESTANTE_FILING?"),
        ("RESTANTE_ORIGINS__a__GROOP", "did you mean RESTANTE_ORIGINS__<name>__GROUP?"),
        ("RESTANTE_ORIGINS__GROUP", "did you mean"),
        ("RESTANTE_SERVER", "names no setting"),
        ("RESTANTE_SERVER__PORT__MORE", "names no setting"),
        ("RESTANTE_FILING__NOW", "names no setting"),
        ("RESTANTE_", "settings are named as RESTANTE_SERVER__PORT is for server.port"),
        ("RESTANTE_QQQQ", "settings are named as RESTANTE_SERVER__PORT is for server.port"),
    ],
)
def test_a_variable_that_names_no_setting_is_an_error_that_names_it(name: str, hint: str) -> None:
    (problem,) = problems_of(None, {name: "1"})
    assert problem.startswith(f"environment {name}: names no setting; ")
    assert hint in problem


def test_the_same_setting_in_two_variables_is_an_error() -> None:
    (problem,) = problems_of(None, {"RESTANTE_SERVER__PORT": "1", "RESTANTE_server__port": "2"})
    assert (
        problem == "environment RESTANTE_server__port: is the same setting as RESTANTE_SERVER__PORT; give one of them"
    )


def test_a_variable_of_bytes_that_are_no_text_is_refused_in_words_that_can_be_printed() -> None:
    for name in ("RESTANTE_ORIGINS__\udcff__GROUP", "RESTANTE_\udcff"):
        (problem,) = problems_of(None, {name: "x"})
        assert "\\udcff" in problem
        assert problem.isprintable()
    assert problems_of(None, {"RESTANTE_ORIGINS__a__GROUP": "\udcff"})[0].isprintable()


@pytest.mark.parametrize("text", ["abc", "", "1\nfiling = 2", "[1]", "1.5", "true", '"1"'])
def test_a_variable_that_is_no_number_is_refused_by_name(text: str) -> None:
    (problem,) = problems_of(None, {"RESTANTE_SERVER__PORT": text})
    assert problem.startswith("environment RESTANTE_SERVER__PORT: server.port: must be a whole number from 0 to 65,535")


def test_all_problems_are_reported_at_once_each_with_its_line(file: Writer) -> None:
    path = file(
        """partition_count = 0
housekeping_seconds = 3
port = 5

[origins.billing]
group = ""
content_url = "ftp://files.example/"

[origins."a.b"]
groop = "x"

[server]
log = 3
colour = [
  1,
]
drain_seconds = 10
"""
    )
    assert problems_of(path, {"RESTANTE_FILING": "perhaps"}) == [
        "restante.toml:1: partition_count: must be a whole number from 1 to 10,000, not 0",
        "restante.toml:2: housekeping_seconds: is not known; did you mean housekeeping_seconds?",
        "restante.toml:3: port: is not known; did you mean server.port?",
        "restante.toml:6: origins.billing.group: must be a text of 1 to 64 characters, not blank, not ''",
        f"restante.toml:7: origins.billing.content_url: must be {OriginSettings.rules['content_url'].allowed}, not 'ftp://files.example/'",
        'restante.toml:10: origins."a.b".groop: is not known; did you mean origins."a.b".group?',
        'restante.toml:13: server.log: must be "auto" or "json" or "text", not 3',
        f"restante.toml:14: server.colour: is not known; known here: {', '.join(ServerSettings.rules)}",
        "restante.toml:17: server.drain_seconds: must be a number of seconds, 0 or more and less than 10, not 10",
        "environment RESTANTE_FILING: filing: must be true or false, not 'perhaps'",
    ]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("server = 3\n", "restante.toml:1: server: must be a table"),
        ("\norigins = 3\n", "restante.toml:2: origins: must be tables by name, such as [origins.name]"),
        ("[origins]\nbilling = 3\n", "restante.toml:2: origins.billing: must be a table: [origins.billing]"),
        ("[[server]]\nport = 3\n", "restante.toml:1: server: must be a table"),
        ('[origins.""]\n', 'restante.toml:1: origins."": the name must be a text of 1 to 64 characters'),
        ("server = {port = 99999}\n", "restante.toml:1: server.port: must be"),
        ("server.port = 99999\n", "restante.toml:1: server.port: must be"),
        ("[server]\r\nlog = 'json'\r\nport = 99999\r\n", "restante.toml:3: server.port: must be"),
        (f"[server]\nport = 0x{'f' * 5_000}\n", "restante.toml:2: server.port: must be"),
        ("[server]\nport = 2020-01-01\n", "restante.toml:2: server.port: must be"),
        ("a = 1\nb =\n", "restante.toml:2: is not TOML: Invalid value"),
        ("a = 1\na = 2\n", "restante.toml:2: is not TOML: "),
        ('\na = """\nnever closed', "restante.toml:3: is not TOML: "),
        ("a = " + "[" * 20_000, "restante.toml:1: is not TOML: "),
    ],
)
def test_a_wrong_file_is_refused_at_its_line(file: Writer, text: str, start: str) -> None:
    (problem,) = problems_of(file(text))
    assert problem.startswith(start)


def test_problems_of_the_environment_are_told_beside_a_syntax_error(file: Writer) -> None:
    problems = problems_of(file("a = \n"), {"RESTANTE_SERVER__PORT": "x"})
    assert [problem.split(":")[0] for problem in problems] == ["restante.toml", "environment RESTANTE_SERVER__PORT"]


def test_a_variable_below_something_that_is_no_table_leaves_the_problem_with_the_file(file: Writer) -> None:
    (problem,) = problems_of(file("server = 3\n"), {"RESTANTE_SERVER__PORT": "1"})
    assert problem.startswith("restante.toml:1: server: must be a table")


def test_a_file_that_is_not_there_not_text_or_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "restante.toml"
    assert "cannot be read (No such file or directory)" in problems_of(path)[0]
    assert "cannot be read (Is a directory)" in problems_of(tmp_path)[0]
    path.write_bytes(b"filing = true\n# \xff\n")
    assert problems_of(path) == [f"{path}:2: is not UTF-8; save the file as UTF-8"]
    path.write_bytes(b"#" * (limits.SETTINGS_FILE_BYTES_MAX + 1))
    assert "is too large" in problems_of(path)[0]


def test_the_source_of_every_setting_is_known(file: Writer) -> None:
    path = file('[origins."a.b"]\ngroup = "x"\n\n[server]\nport = 1\nlog = "text"\n')
    effective = load(path, {"RESTANTE_SERVER__LOG": "json"}).effective()
    sources = {setting.key: (setting.value, setting.source) for setting in effective}
    assert sources['origins."a.b".group'] == ("x", "restante.toml:2")
    assert sources['origins."a.b".content_url'] == (None, "default")
    assert sources["server.port"] == (1, "restante.toml:5")
    assert sources["server.log"] == ("json", "environment RESTANTE_SERVER__LOG")
    assert sources["server.host"] == ("127.0.0.1", "default")
    health = 2 * len(HealthBounds.rules) + 2
    groups = len(GroupSettings.rules) + len(ActionSettings.rules)
    assert (
        len(sources)
        == len(effective)
        == 19
        + 4
        + len(ServerSettings.rules)
        + len(ClusterSettings.rules)
        + len(LiveSettings.rules)
        + 1
        + groups
        + health
        + len(BackplaneSettings.rules)
    )


def test_bounds_of_health_come_from_files_and_variables(file: Writer) -> None:
    path = file("[health.bounds]\ndisk_left = {yellow = 20, red = 10}\n[health.bounds.backlog]\nyellow = 1\nred = 2\n")
    given = {
        "RESTANTE_HEALTH__BOUNDS__DISK_LEFT__RED": "7.5",
        "RESTANTE_HEALTH__DISABLED": "deep_write, groups/billing",
    }
    health = load(path, given).settings.health
    assert (health.bounds.disk_left.yellow, health.bounds.disk_left.red) == (20, 7.5)
    assert (health.bounds.backlog.yellow, health.bounds.backlog.red) == (1, 2)
    assert (health.bounds.poisoned.yellow, health.bounds.poisoned.red) == (1, 10)
    assert health.disabled == ("deep_write", "groups/billing")


def test_faults_in_the_bounds_of_health_are_told_where_they_are(file: Writer) -> None:
    name = "RESTANTE_HEALTH__BOUNDS__POISONED"
    path = file("[health.bounds]\ndisk_left = {red = 10}\ndisk = 3\nbacklog = {yellow = -1, red = 2}\n")
    with pytest.raises(errors.InvalidSettings) as caught:
        load(path, {name: "3"})
    assert caught.value.details["problems"] == [
        "restante.toml:2: health.bounds.disk_left: needs yellow too",
        "restante.toml:3: health.bounds.disk: is not known; did you mean health.bounds.disk_left?",
        "restante.toml:4: health.bounds.backlog.yellow: must be a number, 0 or more, not -1",
        f"environment {name}: names no setting; did you mean {name}__RED?",
    ]


def test_a_secret_is_read_and_not_shown(file: Writer) -> None:
    secret = "whsec_" + "aHVudGVy" * 4
    loaded = load(file(f'[origins.a]\nsecret = "{secret}"\n'), {"RESTANTE_ORIGINS__b__SECRET": secret})
    assert {origin.secret for origin in loaded.settings.origins.values()} == {secret}
    shown = {setting.key: setting.value for setting in loaded.effective()}
    assert (shown["origins.a.secret"], shown["origins.b.secret"]) == ("(not shown)", "(not shown)")
    assert secret not in repr(loaded)


KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=6)
VALUES = st.sampled_from(["1", "true", "'x'", '"""\n[a]\nb = 1\n"""', "[\n1,\n# [c]\n2,\n]", "{ y = 1 }", "'''\n\n'''"])


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, st.lists(st.tuples(KEYS, VALUES), max_size=4)), max_size=5))
def test_the_line_of_each_key_is_where_it_was_written(tables: list[tuple[str, list[tuple[str, str]]]]) -> None:
    text = "# a file\n"
    written: dict[KeyPath, int] = {}
    for table, entries in dict(tables).items():
        written[(table,)] = text.count("\n") + 1
        text += f"[{dotted((table,))}]\n\n"
        for key, value in dict(entries).items():
            written[table, key] = text.count("\n") + 1
            text += f"{dotted((key,))} = {value}  # = [z]\n"
    found = key_lines(text)
    assert {path: line for path, line in found.items() if len(path) < 3} == written


def test_values_for_kafka_are_not_shown(file: Writer) -> None:
    path = file('[backplane]\ntopic = "mail"\nkafka = {"sasl.password" = "hush"}\n')
    loaded = load(path, {})
    assert loaded.settings.backplane.kafka == {"sasl.password": "hush"}
    shown = {setting.key: setting.value for setting in loaded.effective()}
    assert (shown["backplane.topic"], shown["backplane.kafka"]) == ("mail", {"sasl.password": "(not shown)"})
    assert "hush" not in repr(loaded.settings)
    given = load(None, {"RESTANTE_BACKPLANE__KAFKA": '{"client.id" = "x"}'})
    assert given.settings.backplane.kafka == {"client.id": "x"}
