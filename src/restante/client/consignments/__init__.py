"""Consignments: staging and committing."""
