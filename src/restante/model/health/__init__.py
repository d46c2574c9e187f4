"""Health: measures judged by bounds, a tree of states, an hour of history."""
