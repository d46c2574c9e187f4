"""The functions that carry out the calls about actions."""

from __future__ import annotations

from restante.calls.actions import (
    GiveUpPoison,
    ListPoison,
    ReadAction,
    RepeatPoison,
    ReportEach,
    ReportOutcomes,
    SendAction,
    SendActions,
)
from restante.hub.actions import accept, joint_reports, look_up, outcomes, poison
from restante.hub.engine.procedures import Functions

FUNCTIONS: Functions = {
    SendAction: accept.send_action,
    SendActions: accept.send_actions,
    ReadAction: look_up.read_action,
    ReportOutcomes: outcomes.report_outcomes,
    ReportEach: joint_reports.report_each,
    ListPoison: poison.list_poison,
    RepeatPoison: poison.repeat_poison,
    GiveUpPoison: poison.give_up_poison,
}
