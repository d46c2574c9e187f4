"""Connections: the protocol, its bounds, bodies in and out."""
