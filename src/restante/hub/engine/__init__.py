"""The engine under every subject: the committer, the plan of a commit, partitions, runs and filing."""
