"""Parcels, pipelines and buffered producers."""
