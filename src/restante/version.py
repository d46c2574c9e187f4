"""The version of the package, where every layer may read it."""

from __future__ import annotations

__version__ = "0.1.0"
