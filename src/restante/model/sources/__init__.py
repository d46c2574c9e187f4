"""Where messages come from: the last position of each source that a partition has stored."""
