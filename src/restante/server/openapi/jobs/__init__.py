"""The routes of jobs, described."""
