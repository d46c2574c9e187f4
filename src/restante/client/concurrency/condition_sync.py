"""A condition for threads. `restante.client.concurrency.condition_async` has the one for tasks."""

from __future__ import annotations

from threading import Condition

__all__ = ["Condition"]
