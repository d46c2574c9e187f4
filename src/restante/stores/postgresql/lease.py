"""`Lease`: a row that shows that a session is alive, and decides how long its owner may answer.

The owner changes `beat` every third of the lease. Another node that wants its shards must see the beat unchanged for the
whole lease that the row states, by its own clock; clocks are never compared. It then deletes the row, so that a later renewal
finds nothing, and nobody owns the shards. The owner counts from before it sent its last renewal, and stops answering some time
before others may begin. A late renewal is valid if the row still exists.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

import psycopg

from restante.errors import NotOwner, RestanteError
from restante.ports.clock import running_seconds
from restante.stores.postgresql.failures import translated
from restante.stores.postgresql.leases import TAKEN_OVER, forget, session_name
from restante.stores.postgresql.schema import Session
from restante.stores.postgresql.sessions import connect

LEASE_SECONDS = 3.0
_BEATS_A_LEASE = 3
_MARGIN = 0.2
"""The fraction of a lease by which its owner stops earlier."""

_ENTER = "INSERT INTO restante_nodes VALUES (%s, %s, 0, %s, %s)"
_BEAT = "UPDATE restante_nodes SET beat = beat + 1, about = %s WHERE session = %s"
_LEAVE = "DELETE FROM restante_nodes WHERE session = %s"

_log = logging.getLogger(__name__)


class Lease:
    """Keeps the lease of a session, with its own thread and connection, so that a long commit delays no renewal."""

    def __init__(self, terms: Mapping[str, str], owner: str, name: str, seconds: float, about: bytes = b"") -> None:
        self._terms = terms
        self._owner = owner
        self._seconds = seconds
        self.about = about
        """The description of the node that each beat writes."""
        self._session: Session | None = connect(terms, session_name(owner))
        self._until = running_seconds() + seconds * (1 - _MARGIN)
        self._session.execute(_ENTER, (owner, name, round(seconds * 1_000), about))
        self._ending = threading.Event()
        self.lost: str | None = None
        """Why the lease is over for good."""
        self._thread = threading.Thread(target=self._run, name="restante-lease", daemon=True)
        self._thread.start()

    def require(self) -> None:
        """Raise `NotOwner` if another node may own our shards by now."""
        if self.lost is not None:
            raise NotOwner(self.lost)
        if running_seconds() >= self._until:
            raise NotOwner("This hub could not renew its lease of the store in time. It goes on when it can.")

    def seconds_left(self) -> float:
        """How long the owner may still answer without another renewal."""
        return 0.0 if self.lost is not None else round(max(0.0, self._until - running_seconds()), 3)

    def close(self) -> None:
        """Give up the lease, so that the next owner need not wait."""
        self._ending.set()
        self._thread.join()
        try:
            session = self._connected()
            with session.transaction():
                session.execute(_LEAVE, (self._owner,))
                forget(session, self._owner)
        except (psycopg.Error, RestanteError) as error:
            _log.warning("The lease of the store ends by itself. %s", error)
        self._disconnect()

    def _run(self) -> None:
        told = False
        while self.lost is None and not self._ending.wait(self._seconds / _BEATS_A_LEASE):
            try:
                self._beat()
                told = False
            except (psycopg.Error, RestanteError) as error:
                if not told:
                    _log.warning("The lease of the store cannot be renewed; trying again. %s", _said(error))
                told = True
                self._disconnect()

    def _beat(self) -> None:
        sent = running_seconds()
        if self._connected().execute(_BEAT, (self.about, self._owner)).rowcount == 0:
            self.lost = TAKEN_OVER
            _log.critical(self.lost)
            return
        self._until = sent + self._seconds * (1 - _MARGIN)

    def _connected(self) -> Session:
        if self._session is None:
            self._session = connect(self._terms, session_name(self._owner))
        return self._session

    def _disconnect(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def _said(error: Exception) -> str:
    return str(translated(error)) if isinstance(error, psycopg.Error) else str(error)
