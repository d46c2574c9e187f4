"""The rows of actions in a commit: put when actions are stored, changed as they end, deleted with their messages."""
