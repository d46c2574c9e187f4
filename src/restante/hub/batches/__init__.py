"""Batches: fan-outs tracked item by item, and notices of their completion."""
