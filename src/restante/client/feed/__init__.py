"""The feed and snapshots."""
