"""`restante serve`, `settings`, `tokens`, `origins`, `tour`."""
