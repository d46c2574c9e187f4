"""The registration of backups over several shards with a hub."""

from __future__ import annotations

from restante.calls.shards import CutShard
from restante.hub.engine.subject import HubSubject
from restante.hub.upkeep.backup import cut_shard

SUBJECT = HubSubject(functions={CutShard: cut_shard})
