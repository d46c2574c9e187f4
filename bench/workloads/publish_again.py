"""Publish the same 51,200 messages again: all of them are duplicates."""

from __future__ import annotations

from bench import contenders
from bench.contenders import Recipients
from bench.context import Bench
from bench.mail import recipient_names
from bench.outcome import Figure, Line, Outcome, slower

AT_MOST = 1.0


def run(bench: Bench) -> Outcome:
    many = recipient_names(bench.scale.send_recipients)
    return Outcome(
        [
            _line(bench, "the same again, one recipient", bench.mail.newcomer),
            _line(bench, "the same again, 5,000 recipients", lambda: many),
        ]
    )


def _line(bench: Bench, what: str, recipients: Recipients) -> Line:
    with bench.ours() as ours:
        first = contenders.publish("first", ours, bench.mail, recipients, bench.scale.send)
        again = contenders.publish_again("again", ours, bench.mail, recipients, bench.scale.send)
        samples = bench.interleave(what, [first, again], bench.scale.repetitions)
    reference = Figure.of_seconds(samples["first"], "the first")
    return slower(what, Figure.of_seconds(samples["again"]), reference, at_most=AT_MOST)
