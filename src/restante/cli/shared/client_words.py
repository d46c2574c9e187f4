"""The words of the client while it tries again, as lines on standard error."""

from __future__ import annotations

import logging
import sys

from restante.cli.shared.plain import say
from restante.client.transport.unreachable import LOGGER


class _OnStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage(), file=sys.stderr, flush=True)


def hear_client() -> None:
    """Print what the client says, from now on. A second call changes nothing."""
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(handler, _OnStandardError) for handler in logger.handlers):
        logger.addHandler(_OnStandardError())
        logger.propagate = False
