"""The calls for upkeep that concern several subjects, carried out."""

from __future__ import annotations

from restante.calls.removal import RetainNow
from restante.hub.consignments import consignments
from restante.hub.consignments.staged_parcels import StagingRoom
from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject
from restante.hub.publishing.producers import ProducerMemory
from restante.hub.removal import retention, scrub
from restante.model.access.access import Grant


def retain(core: Core, _: RetainNow, __: Grant) -> int:
    # A call looks at everything now, also at what the background task would look at later.
    core.memory(ProducerMemory).due.clear()
    core.memory(StagingRoom).due = 0
    consignments.keep(core)
    scrub.scrub(core)
    return retention.retain(core)


SUBJECT = HubSubject(functions={RetainNow: retain})
