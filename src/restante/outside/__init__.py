"""Calls of the hub to others over HTTP: origins and webhooks."""
