"""Consignments as they are stored and answered."""
