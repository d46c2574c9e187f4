"""Actions, described: the routes, and the bounds of their bodies."""
