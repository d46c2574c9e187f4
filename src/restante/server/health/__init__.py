"""Health as a server sees it: rounds in the background, and what only a server can measure."""
