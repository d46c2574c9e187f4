"""Stored things and how they lie: segments, runs, heads, change records, keys."""
