"""The warning of a client that repeats a call, so that a wait is never silent. Its logger is `restante.client`."""

from __future__ import annotations

import logging

LOGGER = "restante.client"
_log = logging.getLogger(LOGGER)


def warn(text: str) -> None:
    """Log the warning. If logging is not configured, Python shows it on standard error."""
    _log.warning("%s", text)
