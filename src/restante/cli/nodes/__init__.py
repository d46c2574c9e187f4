"""`restante nodes`, `restante shards`."""
