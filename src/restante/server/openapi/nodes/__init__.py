"""The routes of nodes, described."""
