"""Samples: the nights that `restante tour` plays."""
