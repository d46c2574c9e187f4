"""Shards: which partitions each has, and what is decided when something concerns several. Pure."""
