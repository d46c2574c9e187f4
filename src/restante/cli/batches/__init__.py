"""`restante batches`."""
