"""`LivePost` hands the messages of each commit to live delivery.

The committer announces messages in number order, once their commit is durable. Nothing is copied, and without a taker
nothing is done. A commit that stores messages without reading them, such as that of a consignment, names only the
recipients: their live connections read the messages from history.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from restante.hub.engine.core import Core
from restante.hub.engine.plan import CommitPlan, Note
from restante.model.live.committed_mail import Mail, Take

_log = logging.getLogger(__name__)


class LiveMail(Note):
    """The messages that a commit stores, in number order."""

    def __init__(self) -> None:
        self.mail: list[Mail] = []

    def take_over(self, later: LiveMail) -> None:
        self.mail += later.mail


class LivePost:
    """The takers of committed mail. The committer's thread calls them, so they must be quick."""

    def __init__(self) -> None:
        self._takers: tuple[Take, ...] = ()

    @contextmanager
    def taking(self, take: Take) -> Iterator[None]:
        """Within this context, `take` gets the mail of each commit."""
        self._takers = (*self._takers, take)
        try:
            yield
        finally:
            self._takers = tuple(taker for taker in self._takers if taker is not take)

    def announce(self, mail: Sequence[Mail]) -> None:
        if not mail:
            return
        for take in self._takers:
            try:
                take(mail)
            except Exception:  # noqa: BLE001  # if one taker fails, the others still get the mail
                _log.exception("What was committed could not be pushed.")


def announce(core: Core, plan: CommitPlan) -> None:
    """Hand the mail of a commit to the takers; `core.announcers` has this function."""
    note = plan.noted(LiveMail)
    if note is not None:
        core.memory(LivePost).announce(note.mail)
