"""Columns: Arrow and NumPy arrays of texts, UUIDs, hashes, properties."""
