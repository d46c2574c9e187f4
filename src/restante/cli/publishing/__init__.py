"""`restante send`."""
