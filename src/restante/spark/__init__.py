"""The data pipeline on Spark: `format("restante")` reads and writes a hub, and jobs turn its feed into tables and reports.

```python
import restante.spark

spark = restante.spark.session()
frame = spark.read.format("restante").load("http://127.0.0.1:8470")
```

In a session of your own, `restante.spark.register(spark)` makes the format known.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from restante.errors import ExtraMissing

if TYPE_CHECKING:
    from restante.spark.running.hub_frames import bootstrap, compose, ordered
    from restante.spark.sessions.start import session
    from restante.spark.source.registration import register

__all__ = ["bootstrap", "compose", "ordered", "register", "session"]

if find_spec("pyspark") is None:
    raise ExtraMissing("The data pipeline needs Spark: pip install 'restante[spark]'.")

_HOMES = {
    "bootstrap": "running.hub_frames",
    "compose": "running.hub_frames",
    "ordered": "running.hub_frames",
    "register": "source.registration",
    "session": "sessions.start",
}


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for: those who do the work on a cluster need little of it."""
    if name in __all__:
        return getattr(import_module(f"restante.spark.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'restante.spark' has no attribute {name!r}")
