"""The doctor, asked after a hub was closed: nothing may be wrong, and no blob may lie about that nobody names."""

from __future__ import annotations

from restante.assembly import open_store
from restante.hub.doctor.doctor import Finding, examine
from restante.ports.store import Store
from tests.hub.engines import Engine, MemoryEngine, SqliteEngine


def findings_of(store: Store) -> tuple[Finding, ...]:
    return examine(store).findings


def findings_at(engine: Engine) -> tuple[Finding, ...]:
    """What the doctor finds where a hub was closed."""
    if isinstance(engine, MemoryEngine):
        return findings_of(engine.store.survivor())
    assert isinstance(engine, SqliteEngine)
    store = open_store(engine.folder)
    try:
        return findings_of(store)
    finally:
        store.close()
