"""`restante collect`, `explain`, `history`, `recipients`."""
