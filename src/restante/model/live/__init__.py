"""The queue of a live connection."""
