"""Commands of workers and their actions."""
