"""The command `health`."""
