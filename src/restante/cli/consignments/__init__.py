"""`restante consignments`."""
