"""`restante jobs`."""
