"""Upkeep: backup, restore, migration."""
