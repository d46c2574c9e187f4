"""What is stored and how it lies: segments, runs, heads, change records, keys."""
