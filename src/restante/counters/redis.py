"""Counters in Redis or Valkey: a key for each batch, which expires when nobody has used it for long.

Nothing is tried again here: an addition whose answer did not come may have been counted, and the error says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from restante import limits
from restante.errors import ExtraMissing, OutcomeUnknown, Unavailable

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as missing:
    raise ExtraMissing(
        f"Counting in Redis or Valkey (counters_url) needs more than is installed ({missing}): "
        "pip install 'restante[redis]'."
    ) from missing

_PREFIX = b"restante:batch:"
_KEEP_SECONDS_MAX = 100 * 365 * 86_400.0
"""More than that does not fit where the server adds it to the time of day."""


class RedisCounters:
    """Counters on one server. It is connected to when it is first used, and again whenever a connection was lost."""

    def __init__(self, url: str, *, password: str | None, keep_seconds: float) -> None:
        self._keep_ms = int(min(keep_seconds, _KEEP_SECONDS_MAX) * 1_000)
        self._pool = redis.BlockingConnectionPool.from_url(
            url,
            password=password,
            protocol=2,  # which every version speaks, and needs no question first
            max_connections=limits.COUNTER_CONNECTIONS_MAX,
            timeout=limits.COUNTER_SECONDS_MAX,
            socket_connect_timeout=limits.COUNTER_SECONDS_MAX,
            socket_timeout=limits.COUNTER_SECONDS_MAX,
            retry=Retry(NoBackoff(), 0),
        )
        self._client = redis.Redis(connection_pool=self._pool)

    def add(self, batch_id: bytes, count: int) -> int:
        with self._commands() as commands:
            commands.incrby(_PREFIX + batch_id, count)
            commands.pexpire(_PREFIX + batch_id, self._keep_ms)
            return int(commands.execute()[0])

    def total(self, batch_id: bytes) -> int:
        with self._commands() as commands:
            commands.get(_PREFIX + batch_id)
            commands.pexpire(_PREFIX + batch_id, self._keep_ms)
            return int(commands.execute()[0] or 0)

    def forget(self, batch_id: bytes) -> None:
        with self._commands() as commands:
            commands.delete(_PREFIX + batch_id)
            commands.execute()

    def close(self) -> None:
        self._pool.disconnect()

    @contextmanager
    def _commands(self) -> Iterator[Any]:
        """Commands that the server carries out together, on a connection that was there before any was sent."""
        with self._client.pipeline(transaction=True) as commands:
            try:
                commands.connection = self._pool.get_connection()  # type: ignore[no-untyped-call]  # it has no types
            except (redis.RedisError, OSError) as error:
                raise Unavailable(f"The counters are out of reach ({_what(error)}). Try again.") from error
            try:
                yield commands
            except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
                raise OutcomeUnknown(f"The counters did not answer ({_what(error)}).") from error
            except (redis.RedisError, ValueError) as error:
                raise Unavailable(f"The counters refused ({_what(error)}).") from error


def _what(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__
