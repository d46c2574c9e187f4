"""A node served: its door, its port for the other nodes, and the shards that it owns now."""
