"""The check of the documentation: which threads it finds in the code, and which anchors headings have."""

from __future__ import annotations

import ast

import pytest

from tools.check_docs import anchor_of, thread_names

MADE = """
threading.Thread(target=work, name="restante-lease").start()
ThreadPoolExecutor(2, "restante-parts")
ThreadPoolExecutor(2, thread_name_prefix="restante-stage")
super().__init__(name=f"restante-job-{name}", daemon=True)
threading.Thread(target=task.run, name=f"restante-{task.name}")
"""


def test_threads_are_found_by_their_names() -> None:
    found = set(thread_names(ast.parse(MADE)))
    assert found == {"restante-lease", "restante-parts", "restante-stage", "restante-job-…"}


def test_a_thread_without_a_name_is_found() -> None:
    assert list(thread_names(ast.parse("threading.Thread(target=work).start()"))) == [None]


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
