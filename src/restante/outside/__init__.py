"""What the hub says to others over HTTP: origins and webhooks."""
