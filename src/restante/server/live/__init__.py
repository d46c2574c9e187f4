"""Live delivery: a client that is connected gets new messages at once; one that is slow loses nothing, only freshness."""
