"""`restante work` and `restante poison`: a worker as a process, and what it could not do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from restante.calls.actions import ReportOutcomes
from restante.calls.groups import DefineGroup, JoinGroup, ReadNext
from restante.model.actions.wanted_action import WantedAction
from restante.model.groups.group_answers import ReadAfter
from restante.model.work.results import OutcomeState, WorkOutcome, WorkProblem
from tests.cli.places import HubPlace, Place, run
from tests.waiting import wait_until

SHOP = '''
from typing import Any

import msgspec
import pydantic

from restante.work import App, Job, Located


class Comment(msgspec.Struct):
    text: str
    stars: int = 5


class Item(pydantic.BaseModel):
    name: str


app = App("shop")


@app.action("add_comment", timeout=30)
async def add_comment(comment: Comment, job: Job) -> dict[str, int]:
    """Add a comment to an item.

    The same comment twice is one.
    """
    return {"stars": comment.stars}


@app.action("add_item")
def add_item(item: Item | None) -> Located: ...
'''


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    return tmp_path


def test_the_actions_of_an_app_are_described(shop: Path) -> None:
    result = run("work", "shop:app", "--openapi")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    assert document["info"]["title"] == "Actions of shop"
    comment = document["paths"]["/v1/actions/add_comment"]["post"]
    assert comment["summary"] == "Add a comment to an item."
    body = comment["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["concerns", "data"]
    assert body["properties"]["data"] == {"$ref": "#/components/schemas/Comment"}
    answer = comment["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer["properties"]["result"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    schemas = document["components"]["schemas"]
    assert schemas["Comment"]["required"] == ["text"]
    assert schemas["Item"]["properties"]["name"]["type"] == "string"
    item = document["paths"]["/v1/actions/add_item"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert item["properties"]["data"] == {"anyOf": [{"$ref": "#/components/schemas/Item"}, {"type": "null"}]}


def test_the_tables_of_once_are_printed() -> None:
    result = run("work", "--schema")
    assert result.exit_code == 0
    assert "CREATE TABLE IF NOT EXISTS restante_once" in result.stdout
    assert "CREATE TABLE IF NOT EXISTS restante_fence" in result.stdout


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nowhere.at_all:app", "There is no module nowhere.at_all"),
        ("shop:other", "shop has no app other"),
        (":app", "names no module"),
    ],
)
def test_an_app_that_is_not_there_is_told(shop: Path, name: str, told: str) -> None:
    result = run("work", name)
    assert result.exit_code == 1
    assert told in " ".join(result.stderr.split())


def test_no_app_is_a_mistake() -> None:
    assert run("work").exit_code == 2


def test_a_worker_works_until_sigterm_and_leaves_in_order(shop: Path, hub_place: HubPlace) -> None:
    command = [sys.executable, "-m", "restante", "work", "shop:app", *hub_place.options]
    source = Path(__file__).parents[2] / "src"
    environment = os.environ | {"PYTHONPATH": str(source)}
    with subprocess.Popen(command, cwd=shop, env=environment, stderr=subprocess.PIPE, text=True) as worker:
        with hub_place.opened() as hub:
            status = hub.act("add_comment", concerns="item-7", data={"text": "good"}, wait=25)
            assert status.value == {"stars": 5}
            worker.send_signal(signal.SIGTERM)
            assert worker.wait() == 0
            assert hub.group("shop").status().members == ()
        assert worker.stderr is not None
        lines = [json.loads(line) for line in worker.stderr]
    assert lines[-1]["event"] == "SIGTERM: no new work is begun; what runs may end."


@pytest.fixture
def poisoned(place: Place) -> Place:
    """A hub with three actions that could not be done."""
    with place.opened() as hub:
        link = hub.link
        link.call(DefineGroup("shop", actions=("add_comment", "add_item")))
        wanted = [
            WantedAction(action="add_comment", concerns="item-7", data=b'{"text":"good"}', id="first"),
            WantedAction(action="add_comment", concerns="item-8", data=b"{}", id="second"),
            WantedAction(action="add_item", concerns="item-9", data=b"{}", id="third"),
        ]
        hub.act_all(wanted)
        joined = link.call(JoinGroup("shop", "worker-1"))
        for own in joined.partitions:
            after = ReadAfter(partition=own.partition, generation=own.generation, position=own.position)
            for page in link.call(ReadNext("shop", joined.member_id, (after,))).pages:
                numbers = page.table["sequence_number"].to_pylist()
                problem = WorkProblem("error", "Traceback\nValueError: no")
                outcomes = [
                    WorkOutcome(sequence_number=number, state=OutcomeState.POISONED, attempts=1, problem=problem)
                    for number in numbers
                    if number is not None
                ]
                link.call(ReportOutcomes("shop", own.partition, own.generation, outcomes))
    return place


def ids(place: Place, *options: str) -> list[str]:
    return sorted(each["id"] for each in place.answer("poison list", "shop", *options)["poison"])


def test_poison_is_listed_and_shown(poisoned: Place) -> None:
    assert ids(poisoned) == ["first", "second", "third"]
    assert ids(poisoned, "--action", "add_item") == ["third"]
    assert ids(poisoned, "--concerns", "item-8") == ["second"]
    assert ids(poisoned, "--code", "other") == []
    shown = poisoned.answer("poison show", "shop", "first")
    assert (shown["data"], shown["problem"]["code"]) == ({"text": "good"}, "error")
    text = poisoned.run("poison show", "shop", "first").stdout
    assert "ValueError: no" in text
    assert '{"text":"good"}' in text
    assert "add_comment" in poisoned.run("poison list", "shop").stdout
    assert poisoned.run("poison show", "shop", "nobody").exit_code == 1


def test_poison_is_done_again_and_given_up(poisoned: Place) -> None:
    dry = poisoned.answer("poison again", "shop", "--action", "add_comment", "--dry-run")
    assert sorted(dry["actions"]) == ["first", "second"]
    assert len(ids(poisoned)) == 3
    poisoned.answer("poison again", "shop", "first")
    assert ids(poisoned) == ["second", "third"]
    assert poisoned.run("poison give-up", "shop").exit_code == 2, "say which"
    assert poisoned.run("poison give-up", "shop", "--all", stdin=b"n\n").exit_code == 1
    assert len(ids(poisoned)) == 2
    poisoned.answer("poison give-up", "shop", "--all", "--yes")
    assert ids(poisoned) == []
    assert poisoned.run("poison list", "shop").stdout == "There is no poison.\n"
    with poisoned.opened() as hub:
        assert hub.outcome("first").state.value == "accepted"
        assert hub.outcome("second").state.value == "failed"


def test_progress_is_a_table_of_actions(shop: Path, hub_place: HubPlace) -> None:
    from rich.console import Console

    from restante.cli.work.progress import WorkProgress
    from restante.work import App
    from tests.work.workers import WorkerHere

    app = App("seen")

    @app.action("look")
    async def look() -> None: ...

    progress = WorkProgress()
    console = Console(width=120, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123 - nowhere
    console.print(progress.rendered())
    with hub_place.opened() as hub, WorkerHere(app, hub_place.options[-1]) as worker:
        hub.act("look", concerns="a", wait=25)
        progress.watch(worker.runner)
        wait_until(lambda: worker.runner.counts.of("look").done == 1, "it is done")
        console.print(progress.rendered())
    console.file.close()
    text = console.export_text()
    assert "The worker starts." in text
    assert "works for seen: 4 partitions, 0 under way" in text
    assert "look" in text
