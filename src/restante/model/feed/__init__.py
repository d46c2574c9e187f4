"""The feed's columns and answers."""
