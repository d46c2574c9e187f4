"""What stays of erased messages."""
