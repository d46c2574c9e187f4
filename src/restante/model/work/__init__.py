"""Decisions of a worker, without I/O: which action begins, when it is tried again, what is reported, and how far it is."""
