"""Once: a handler's database remembers what was done, in the handler's own transaction."""
