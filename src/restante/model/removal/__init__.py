"""Traces of erased messages."""
