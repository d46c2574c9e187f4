"""Producers that number what they publish."""
