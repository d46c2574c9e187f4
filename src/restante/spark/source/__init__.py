"""`format("restante")`: reading and writing a hub."""
