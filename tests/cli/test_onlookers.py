"""The live view of the tour: what arrives is shown, counted, and held against what is stored."""

from __future__ import annotations

from pathlib import Path

import restante
from restante.model.publishing.message import Message
from restante.samples.night_steps import NightResult
from restante.samples.onlookers import looking_on
from restante.server.serve import start


def test_messages_are_shown_as_they_arrive_and_the_night_has_a_step_of_it(tmp_path: Path) -> None:
    night, told = NightResult(messages=0, recipients=0), list[str]()
    with (
        start(tmp_path / "data") as running,
        restante.connect(running.url) as hub,
        looking_on(hub, ["ada", "bob", "cleo", "dora"], night, told.append),
    ):
        for value in range(7):
            hub.producer.send([Message(recipient=name, kind="note", data=value) for name in ("ada", "dora")])
    assert [line for line in told if "number" in line] == [
        f"live  ada  number {number}  note" for number in range(1, 5)
    ]
    assert told[-1] == "live  ada  … and so on, as they arrive"
    (step,) = night.steps
    assert (step.step, step.messages, night.wrong) == ("pushed live", 7, [])
