"""Jobs: what the programs that run them report of each run."""
