"""The commands of groups."""
