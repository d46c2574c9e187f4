"""Removal: withdraw, set aside, purge, expire, retain, erase."""
