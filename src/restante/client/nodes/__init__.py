"""Nodes and shards, for those who ask a hub over the network."""
