"""Spark itself: its Java, its jars, its start and its end."""
