"""Live delivery: whoever is connected gets new messages at once; whoever is slow loses nothing, only freshness."""
