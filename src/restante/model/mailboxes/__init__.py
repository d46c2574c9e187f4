"""Bundles, and messages on their way out."""
