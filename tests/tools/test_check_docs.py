"""The check of the documentation: which threads it finds in the code, and which anchors headings have."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.check_docs import anchor_of, folders_below, thread_names

MADE = """
threading.Thread(target=work, name="restante-lease").start()
ThreadPoolExecutor(2, "restante-parts")
ThreadPoolExecutor(2, thread_name_prefix="restante-stage")
threading.Thread(target=work, name=f"restante-job-{name}", daemon=True)
threading.Thread(target=task.run, name=f"restante-{task.name}")
"""


def test_threads_are_found_by_their_names() -> None:
    found = set(thread_names(ast.parse(MADE)))
    assert found == {"restante-lease", "restante-parts", "restante-stage", "restante-job-…", "restante-…"}


def test_a_thread_without_a_name_is_found() -> None:
    assert list(thread_names(ast.parse("threading.Thread(target=work).start()"))) == [None]


@pytest.mark.parametrize(
    "made",
    [
        'from threading import Thread as Made\nMade(target=work, name="restante-a")',
        'def go():\n    timer = threading.Timer(1, work)\n    timer.name = "restante-a"',
        'class Own(threading.Thread):\n    def __init__(self):\n        super().__init__(name="restante-a")',
        'class Sender:\n    def go(self):\n        Thread(name=self._name)\nSender(send, name="restante-a")',
        'concurrent.futures.ThreadPoolExecutor(thread_name_prefix="restante-a")',
    ],
)
def test_a_thread_is_found_however_it_is_spelled(made: str) -> None:
    assert set(thread_names(ast.parse(made))) == {"restante-a"}


@pytest.mark.parametrize(
    "made",
    [
        'Thread(target=work, name="work")',
        "Thread(target=work, name=name)",
        "class Own(Thread):\n    def __init__(self):\n        super().__init__(daemon=True)",
        "def go():\n    timer = Timer(1, work)\n    timer.start()",
        "ThreadPool(4)",
        "_thread.start_new_thread(work, ())",
    ],
)
def test_a_thread_of_another_name_or_of_none_is_found(made: str) -> None:
    assert set(thread_names(ast.parse(made))) == {None}


def test_the_default_threads_of_an_event_loop_are_found() -> None:
    for made in ("asyncio.to_thread(work)", "loop.run_in_executor(None, work)"):
        assert list(thread_names(ast.parse(made))) == ["asyncio_…"]
    assert list(thread_names(ast.parse("loop.run_in_executor(self._threads, work)"))) == []


def test_folders_are_those_with_files(tmp_path: Path) -> None:
    for path in ("a/b/c.py", "d/e.css", "f/__pycache__/g.pyc"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    (tmp_path / "empty").mkdir()
    assert {str(path.relative_to(tmp_path)) for path in folders_below(tmp_path)} == {"a", "a/b", "d"}


def test_tasks_of_an_event_loop_are_no_threads() -> None:
    assert list(thread_names(ast.parse('asyncio.create_task(run(), name="restante-live")'))) == []


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("The feed", "the-feed"),
        ("Once: `job.once`", "once-jobonce"),
        ("Latency – or throughput?", "latency-or-throughput"),
    ],
)
def test_a_heading_has_the_anchor_that_the_site_gives_it(heading: str, anchor: str) -> None:
    assert anchor_of(heading) == anchor
