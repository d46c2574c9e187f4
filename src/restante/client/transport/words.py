"""What a client says while it tries again, so that a wait is never silent: a warning of the logger `restante.client`."""

from __future__ import annotations

import logging

LOGGER = "restante.client"
_log = logging.getLogger(LOGGER)


def warn(text: str) -> None:
    """Say it. Without any configuration of logging, Python shows it on standard error."""
    _log.warning("%s", text)
