"""The pages of the guide that need Spark: their blocks run one after the other, and print what the page shows.

Their Spark is the session of all tests, which `restante.spark.session()` finds. So no page may stop it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_examples import SPARK_MARK, check_page, examples_of, pages_with

GUIDES = [page for page in pages_with(SPARK_MARK) if page.parent.name != "tutorial"]

LONGEST = "partitioned-stores"


def test_no_page_stops_the_session_of_all_tests() -> None:
    pages = pages_with(SPARK_MARK)
    assert {"capture-and-replay", "partitioned-stores"} <= {page.stem for page in pages}
    blocks = [block.code for page in pages for block in examples_of(page, mark=SPARK_MARK)]
    assert [code for code in blocks if "spark.stop()" in code] == []


@pytest.mark.timeout(900)  # a machine with much else to do takes minutes
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=[pytest.mark.long] * (page.stem == LONGEST)) for page in GUIDES]
)
def test_a_guide_prints_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_page(page, tmp_path, mark=SPARK_MARK)
