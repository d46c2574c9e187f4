"""Threads and tasks: what waits for what, one after another or side by side."""
