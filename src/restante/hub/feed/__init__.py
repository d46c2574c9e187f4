"""The feed and snapshots of a partition."""
