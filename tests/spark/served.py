"""A hub in a process of its own, as Spark's tasks see it: by its URL alone."""

from __future__ import annotations

import restante
from restante.client.surface.surface import Hub
from tests.crash.served import Served


class HubProcess(Served):
    """Whoever connects closes what it got."""

    token: str | None = None

    def connect(self) -> Hub:
        return restante.connect(self.url, token=self.token)

    def restart(self) -> None:
        """On the same folder and port, whether it was killed or still runs."""
        if self.process.poll() is None:
            self.end()
        self.start()
