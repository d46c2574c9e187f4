"""Consignments: parcels staged by many writers, made visible by one commit."""
