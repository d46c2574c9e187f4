"""Batches, their items and acknowledgements."""
