"""Calls: one frozen struct per operation, typed by what it answers. The one place where an operation is spelled."""
