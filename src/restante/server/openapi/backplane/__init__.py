"""The routes of the backplane, described."""
