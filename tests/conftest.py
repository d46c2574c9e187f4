"""The tiers of the tests: which are left out of `make test`, the tier for people, and run by `make test-all`.

A test is in a tier by where it lies, so that a new one cannot be forgotten. Each system is still met in `make test`: of
Spark, one write, one repeated key, one read, one stream and a case of each job; of the network, one test of each file whose tests run on
every engine, beside all that is about the network itself.
"""

from __future__ import annotations

import atexit
import gc
import itertools
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import typer.main
import typer.testing
from xdist.remote import Producer

from restante.server.health import health_rounds
from tests import profiles
from tests.import_shares import import_own_share
from tests.last_failures import LastFailures, name_of
from tests.quick_servers import quick_servers
from tests.work_units import UnitScheduling, report_little

profiles.register()

WORKERS_PER_CORE = 2
"""Tests mostly wait: for disks, sockets and threads. With a worker for each core, half of the cores' time was idle."""

MEMORY = Path("/dev/shm")
"""A file system in memory, where the system has one. A hub that is opened there takes half the processor time."""
MEMORY_ROOM_BYTES = 4 * 1024**3
"""So much must be free in it; a run leaves a few hundred MiB, which the third run after it removes."""

_folder_numbers = itertools.count()
_HERE = str(Path(__file__).parent)
_SPARK_SMOKE = (
    "test_writing.py::test_each_row_becomes_a_message_in_the_order_of_the_column_asked_for",
    "test_writing.py::test_the_same_key_again_sends_nothing",
    "test_reading.py::test_all_that_is_stored_is_read_as_the_hub_has_it",
    "test_streaming.py::test_a_stream_begins_with_what_is_stored_and_goes_on_with_every_change",
    "test_analytical_store.py::test_changes_become_the_rows_of_the_tables[documents-as-variants]",
    "test_capture.py::test_changes_are_kept_by_hour_and_without_the_erased[by_hour_and_without_the_erased]",
    "test_nightly_run.py::test_a_settlement_is_exact[sums_are_exact]",
    "test_own_report.py::test_the_sample_tells_who_is_late[late_collectors]",
    "test_partitioned_store.py::test_rows_get_their_key[a_key_in_the_data]",
    "test_replay.py::test_what_comes_back_follows_from_what_was_captured[all_comes_back]",
    "test_reports.py::test_the_collection_report_counts[all_that_can_happen]",
    "test_reports.py::test_the_leaderboard_ranks[ranks_are_shared_and_lists_are_short]",
)
"""How Spark reads and writes, and a case of each job."""
_JAVA = frozenset({"spark", "own_java"})
"""Fixtures of tests that start Spark. The others of `tests/spark` are for people."""
_KILLS = frozenset(
    {
        "test_kills.py",
        "test_kills_wire.py",
        "test_kills_postgresql.py",
        "test_kills_nodes.py",
        "test_campaign.py",
        "test_sqlite_crashes.py",
        "test_processes.py",
    }
)
"""Processes that are killed under load, by campaigns."""
_KILLS_TESTS = (
    "cli/test_collect_command.py::test_a_collect_that_is_killed_again_and_again_gets_everything_exactly_once",
    "cli/test_feed.py::test_whoever_is_killed_goes_on_and_misses_nothing",
    "cli/test_tour.py::test_the_hub_stays_up_until_it_is_interrupted[15]",
    "docs/test_reading_along.py::test_a_reader_that_is_killed_again_and_again_has_every_change_once",
)
_BROWSER = "test_browser"
"""Pages in a real browser."""
_WIRE_FILES = frozenset({"test_fuzz.py", "test_schemathesis.py"})
"""Many spoilt or made-up requests to one served hub."""
_WIRE_TESTS = tuple(
    f"{place}::test_the_examples_of_a_page_print_what_it_shows[{page}]"
    for place, pages in {
        "clients/test_typescript.py": ("README", "typescript"),
        "docs/test_examples.py": (
            "batches",
            "catalog",
            "first-steps",
            "many-writers",
            "producers",
            "reading-along",
            "workers",
        ),
    }.items()
    for page in pages
)
"""Pages whose examples run many programs against a served hub, or are compiled first."""
_BENCH_PROCESSES = (
    "test_batches.py::test_the_hub_counts_a_batch_down_to_one_completion",
    "test_idempotent.py::test_each_way_of_small_publishes_stores_everything_and_only_the_numbered_ones_leave_producers",
    "test_idempotent.py::test_each_way_of_large_parcels_stores_everything_and_only_the_numbered_ones_leave_a_producer",
    "test_live.py::TestOurs::test_the_client_and_bare_sockets_get_everything_in_order[client]",
    "test_live.py::TestOurs::test_the_client_and_bare_sockets_get_everything_in_order[bare sockets]",
    "test_reading_along.py::test_our_ways_read_everything_or_what_was_asked_for[Served]",
    "test_reading_along.py::test_publishing_beside_a_reader_is_timed_and_the_reader_sees_all_of_it[OverTheWire]",
    "test_live.py::TestOurs::test_those_that_read_nothing_are_connected_and_get_nothing",
    "test_live.py::TestOurs::test_connections_may_wait_for_more",
)
"""Workloads of the benchmarks in processes of their own."""
_CHAT = tuple(
    f"examples/test_chat.py::{test}"
    for test in (
        "test_a_device_that_was_off_goes_on_where_it_was",
        "test_nothing_is_missed_while_the_hub_is_served_anew",
        "test_other_things_in_the_mailbox_do_not_end_it",
    )
)
"""Chats of several programs, beside the one of two people."""
_VARIANTS = (
    "batches/test_bound_machine.py::test_the_counts_of_a_batch_are_those_of_its_messages[sqlite]",
    "bench/test_servers.py::test_the_hub_is_started_driven_and_stopped",
    "cli/test_batches_commands.py::test_control_c_leaves_and_the_batch_goes_on",
    "cli/test_batches_commands.py::test_items_go_through_a_pipe_on_a_folder_too",
    "cli/test_command_line.py::test_completion_is_offered[fish]",
    "cli/test_command_line.py::test_completion_is_offered[zsh]",
    "cli/test_command_line.py::test_the_tour_runs_as_a_program_without_control_characters",
    "cli/test_command_line.py::test_what_nobody_reads_is_not_confirmed[options0-]",
    "cli/test_consignments.py::test_control_c_leaves_it_open_and_says_how_to_go_on",
    "cli/test_feed.py::test_an_arrow_stream_does_not_go_to_a_terminal",
    "cli/test_feed.py::test_control_c_finishes_the_files",
    "cli/test_feed.py::test_what_nobody_reads_is_not_recorded[arrow]",
    "cli/test_feed.py::test_what_nobody_reads_is_not_recorded[jsonl]",
    "cli/test_jobs_commands.py::test_without_spark_the_tour_plays_the_plain_night",
    "cli/test_live_commands.py::test_json_lines_are_as_over_http",
    "cli/test_live_commands.py::test_text_is_the_data_alone",
    "cli/test_live_commands.py::test_two_people_chat",
    "cli/test_plain.py::test_data_is_exact_in_a_pipe_and_harmless_on_a_terminal",
    "cli/test_send_command.py::test_control_c_says_what_is_stored_and_how_to_go_on[without ids]",
    "cli/test_starting.py::test_a_file_is_sent_and_a_folder_opened_without_pandas",
    "cli/test_store_commands.py::test_a_served_hub_says_that_its_server_has_gone_and_goes_on_when_it_is_back",
    "cli/test_tour.py::test_a_tour_of_few_recipients_has_few_that_are_late[1]",
    "cli/test_tour.py::test_a_tour_of_few_recipients_has_few_that_are_late[2]",
    "cli/test_tour.py::test_night_after_night_is_kept_in_the_same_folder_and_is_sound",
    "cli/test_tour.py::test_nothing_is_broken_in_mid_word_on_a_narrow_terminal",
    "client/test_parity.py::test_a_client_needs_nothing_of_a_server[import restante.aio; restante.aio.ProducerClient]",
    "client/test_parity.py::test_a_client_needs_nothing_of_a_server[import restante.aio; restante.aio.connect()]",
    "client/test_parity.py::test_a_client_needs_nothing_of_a_server[import restante.client.surface.connect]",
    "client/test_parity.py::test_a_client_needs_nothing_of_a_server[import restante; restante.connect().close()]",
    "cluster/test_database_resharding.py::test_everything_goes_on_with_other_shards[1 3 2 1 4]",
    "cluster/test_resharding.py::test_everything_goes_on_with_other_shards[3 1 4]",
    "consignments/test_concurrency.py::test_consignments_with_the_same_mail_committed_at_the_same_time_store_it_once[memory]",
    "consignments/test_concurrency.py::test_what_many_writers_stage_beside_publishers_is_delivered_once[memory-0]",
    "consignments/test_machine.py::test_staged_mail_is_seen_by_nobody_and_committed_mail_by_all_at_once[sqlite]",
    "crash/test_full.py::test_a_file_size_limit_is_a_full_disk_to_a_served_hub[database]",
    "crash/test_full.py::test_a_file_size_limit_is_a_full_disk_to_a_served_hub[files]",
    "crash/test_full.py::test_a_full_disk_loses_nothing_and_room_lets_the_hub_go_on[middling]",
    "examples/test_chat.py::test_control_c_ends_it_without_a_trace_and_says_where_to_go_on",
    "examples/test_chat.py::test_what_is_wrong_is_one_line[no hub]",
    "examples/test_chat.py::test_what_is_wrong_is_one_line[no name]",
    "feed/test_replay.py::test_who_reads_along_knows_what_history_and_explain_say[sqlite]",
    "hub/test_against_reference.py::test_recipients_whose_hashes_collide_keep_their_own_mail[0]",
    "hub/test_bound_randomly.py::test_the_hub_counts_what_dictionaries_count[sqlite-0]",
    "hub/test_bound_randomly.py::test_the_hub_counts_what_dictionaries_count[sqlite-1]",
    "hub/test_feed.py::test_a_reader_knows_what_history_knows[sqlite-0]",
    "hub/test_snapshot.py::test_an_earlier_position_shows_what_was_shown_then[sqlite]",
    "nodes/test_nodes.py::test_a_node_that_joins_and_one_that_leaves_refuse_nobody",
    "producers/test_client_machine.py::test_what_a_producer_says_is_true_whatever_the_network_does[sync-numbers alone]",
    "producers/test_client_machine.py::test_what_a_producer_says_is_true_whatever_the_network_does[sync-with ids]",
    "producers/test_hub_machine.py::test_the_hub_does_what_the_rules_say[sqlite]",
    "server/test_fuzz_arrow.py::test_no_damaged_arrow_ends_the_hub_or_grows_it[short]",
    "server/test_fuzz_arrow.py::test_no_damaged_table_ends_the_process_that_sends_it[short]",
    "server/test_large_data.py::test_in_process_it_is_the_same_and_the_folder_is_sound",
    "server/test_large_data.py::test_it_is_pushed_and_sent_live",
    "server/test_live.py::test_a_client_that_reads_nothing_sees_the_gap_and_finds_the_rest_in_history",
    "server/test_live.py::test_a_slow_reader_of_events_misses_nothing_either_when_bytes_are_what_fills_its_queue",
    "server/test_live.py::test_who_sends_without_reading_the_answers_is_not_read_from_either",
    "server/test_protection.py::TestDraining::test_a_hub_whose_folder_is_taken_says_so",
    "server/test_protection.py::TestDraining::test_the_hub_ends_with_0_and_those_who_wait_are_answered[2]",
    "server/test_publish_link.py::test_a_client_that_reads_no_answers_is_not_read_from_for_ever",
    "stores/test_sqlite_log.py::TestSqliteStoreThatCrashesInsteadOfClosing::test_any_history_agrees_with_a_plain_map",
    "stores/test_sqlite_log.py::TestSqliteStoreThatTransfersAllTheTime::test_any_history_agrees_with_a_plain_map",
    "tools/test_last_failures.py::test_a_run_that_could_not_collect_has_not_run_all",
    "tools/test_last_failures.py::test_tests_of_groups_and_tests_whose_worker_died_are_run_once_more",
)
"""Tests that cost much, of rules that another test of `make test` tries: `docs/internals/testing.md` says which."""
_VARIANT_CLASSES = ("stores/test_postgresql_shards.py::TestStoreOfSeveralShards::",)
_LONG = frozenset(
    {
        "actions/test_action_kills.py",
        "batches/test_concurrency.py",
        "client/test_live_cuts.py",
        "crash/test_kills_postgresql.py",
        "feed/test_readers.py",
        "groups/test_group_kills.py",
        "groups/test_group_kills_over_shards.py",
        "nodes/test_kills_nodes.py",
        "work/test_worker_kills.py",
    }
)
"""Files whose counts `RESTANTE_LONG` raises: then their tests are long ones."""
_ENGINES = ("engine", "desk", "place")
"""Fixtures and parameters that put a test on each engine in turn."""
_COUNTS = (profiles.by_profile, profiles.faults, profiles.pairs, profiles.places, profiles.some)
_DISTANT = frozenset({"wire", "doors", "postgresql"})
"""Engines beyond a network: of each file, one test on each of them is for people; `make test-wire` has all."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of which nothing is wanted are not even imported: each worker would do it."""
    wanted = str(config.getoption("-m"))
    left_out = any(f"not {mark}" in wanted and is_of(collection_path) for mark, is_of in _WHOLE_FILES.items())
    return True if left_out else None


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(LastFailures(config))
    # What is collected stays until the end: a quarter of the time of collecting went into looking for garbage in it.
    gc.disable()
    _put_folders_into_memory()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    import_own_share(session.config)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


# What stays frozen is never let go of, and a library that counts its objects at the end would say so in many lines. pytest
# collects garbage before that, twice, and need not look at it.
atexit.register(gc.unfreeze)


def _put_folders_into_memory() -> None:
    """Folders of tests lie in memory. `TMPDIR` puts them elsewhere, and so do the long tests, which write more."""
    elsewhere = {"PYTEST_DEBUG_TEMPROOT", "TMPDIR", "RESTANTE_LONG"} & os.environ.keys()
    if not elsewhere and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_ROOM_BYTES:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> UnitScheduling | None:
    return UnitScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_sessionstart(session: pytest.Session) -> None:
    report_little(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return WORKERS_PER_CORE * cores


@pytest.fixture(scope="session", autouse=True)
def _quick_servers() -> Iterator[None]:
    with quick_servers():
        yield


@pytest.fixture(scope="session", autouse=True)
def _deep_checks_on_demand() -> Iterator[None]:
    """Deep checks take sequence numbers, which tests of servers that run for long would see. Tests of health ask for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(health_rounds, "FIRST_DEEP_SECONDS", float("inf"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_made_once() -> Iterator[None]:
    """Typer makes all commands anew from their signatures at each call, which takes longer than most calls."""
    made = cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", made)
        patch.setattr(typer.testing, "_get_command", made)
        yield


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the test's own. pytest's fixture looks at the folders of all tests before it, to find a number."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_folder_numbers)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """`restante serve` sets the process's log up. A test that runs the command here must not leave it to the others."""
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    yield
    if any(type(handler) is logging.StreamHandler for handler in root.handlers):
        root.handlers[:], root.level = handlers, level


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    represented: set[tuple[Path, str]] = set()
    for item in items:
        for mark, is_of in _TIERS.items():
            if is_of(item):
                item.add_marker(mark)
        distant = _distant_engine(item)
        if distant is not None:
            if (item.path, distant) in represented:
                item.add_marker("wire")
            represented.add((item.path, distant))
    # The campaigns that kill take the longest, so they begin first.
    items.sort(key=lambda item: item.get_closest_marker("kills") is None)


def _is_of_spark(item: pytest.Item) -> bool:
    starts_java = not _JAVA.isdisjoint(getattr(item, "fixturenames", ()))
    return _folder_of(item) == "spark" and starts_java and not name_of(item.nodeid).endswith(_SPARK_SMOKE)


def _is_of_kafka(item: pytest.Item) -> bool:
    return _folder_of(item) == "kafka"


def _kills(item: pytest.Item) -> bool:
    return item.path.name in _KILLS or name_of(item.nodeid).endswith(_KILLS_TESTS)


def _goes_over_the_wire(item: pytest.Item) -> bool:
    name = name_of(item.nodeid)
    listed = name.endswith((*_WIRE_TESTS, *_BENCH_PROCESSES, *_CHAT, *_VARIANTS))
    return listed or item.path.name in _WIRE_FILES or any(variant in name for variant in _VARIANT_CLASSES)


def _is_long(item: pytest.Item) -> bool:
    return bool(os.environ.get("RESTANTE_LONG")) and _place_of(item) in _LONG


def _is_of_a_browser(item: pytest.Item) -> bool:
    return item.path.name.startswith(_BROWSER)


def _place_of(item: pytest.Item) -> str:
    """Its file, from this folder on."""
    return str(item.path).removeprefix(_HERE).lstrip(os.sep).replace(os.sep, "/")


def _folder_of(item: pytest.Item) -> str:
    """The first folder below this one."""
    return _place_of(item).split("/", 1)[0]


def _is_counted(item: pytest.Item) -> bool:
    """Whether a test tries more with the profile `ci`: its module has a count of `tests.profiles`."""
    module = item.getparent(pytest.Module)
    return module is not None and any(getattr(module.obj, count.__name__, None) is count for count in _COUNTS)


def _distant_engine(item: pytest.Item) -> str | None:
    """The engine that a test is put on, if it is one of those that take longer."""
    called = getattr(item, "callspec", None)
    if called is None:
        return None
    return next((called.params[name] for name in _ENGINES if called.params.get(name) in _DISTANT), None)


_WHOLE_FILES: dict[str, Callable[[Path], bool]] = {
    "kafka": lambda path: path.parent.name == "kafka" and path.match("test_*.py"),
    "kills": lambda path: path.name in _KILLS,
    "wire": lambda path: path.name in _WIRE_FILES,
    "browser": lambda path: path.name.startswith(_BROWSER),
}
"""From a mark to what says whether all tests of a file have it."""
_TIERS = {
    "spark": _is_of_spark,
    "kafka": _is_of_kafka,
    "kills": _kills,
    "wire": _goes_over_the_wire,
    "counted": _is_counted,
    "long": _is_long,
    "browser": _is_of_a_browser,
}
"""From a mark to what says whether a test has it."""
