"""The calls for upkeep, carried out."""

from __future__ import annotations

from restante.calls.removal import ExpireNow, FileNow, RetainNow
from restante.calls.shards import CutShard
from restante.hub.consignments import consignments
from restante.hub.consignments.staged_parcels import StagingRoom
from restante.hub.engine import filing
from restante.hub.engine.core import Core
from restante.hub.engine.procedures import Functions
from restante.hub.publishing.producers import ProducerMemory
from restante.hub.removal import expiry, retention, scrub
from restante.hub.upkeep.backup import cut_shard
from restante.model.access.access import Grant


def file(core: Core, _: FileNow, __: Grant) -> int:
    return filing.file_all(core)


def expire(core: Core, _: ExpireNow, __: Grant) -> int:
    return expiry.expire(core)


def retain(core: Core, _: RetainNow, __: Grant) -> int:
    # Who asks for it gets all of it, whatever was to be looked at later.
    core.memory(ProducerMemory).due.clear()
    core.memory(StagingRoom).due = 0
    consignments.keep(core)
    scrub.scrub(core)
    return retention.retain(core)


FUNCTIONS: Functions = {FileNow: file, ExpireNow: expire, RetainNow: retain, CutShard: cut_shard}
