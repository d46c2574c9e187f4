"""The backplane over HTTP."""
