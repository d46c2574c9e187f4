"""Telling receivers elsewhere, over HTTP."""
