"""The door: all use cases of a hub, for programs that wait and for asynchronous ones."""
