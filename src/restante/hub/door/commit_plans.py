"""How the requests of a commit are planned, subject by subject: in the committer's thread, and in an event loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from restante.hub.batches.acknowledge import plan_acknowledgements
from restante.hub.engine.commit_request import CommitRequest
from restante.hub.engine.committer import plan_one
from restante.hub.engine.core import Core
from restante.hub.engine.plan import CommitPlan
from restante.hub.publishing.publish import plan_light_publishes, plan_publishes
from restante.hub.publishing.publish_request import PublishRequest


def plan_jointly(
    core: Core, plan: CommitPlan, requests: Sequence[CommitRequest[object]]
) -> Sequence[CommitRequest[object]]:
    return plan_acknowledgements(core, plan, plan_publishes(core, plan, requests))


def plan_lightly(core: Core, plan: CommitPlan, requests: Sequence[CommitRequest[Any]]) -> bool:
    """Plan small requests in their event loop; only publishes may need a closer look, and they come first."""
    publishes = [request for request in requests if isinstance(request, PublishRequest)]
    if publishes and not plan_light_publishes(core, plan, publishes):
        return False
    if len(publishes) < len(requests):
        others = [request for request in requests if not isinstance(request, PublishRequest)]
        plan.fetch([entry for request in others for entry in request.reads])
        for request in plan_acknowledgements(core, plan, others):
            plan_one(plan, request)
    return True
