"""Doors: processes that speak HTTP, and have no messages of their own."""
