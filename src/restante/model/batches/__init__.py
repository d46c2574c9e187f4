"""Batches, items, bindings, notices and webhooks."""
