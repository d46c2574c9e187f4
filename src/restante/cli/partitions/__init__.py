"""`restante partitions`, `bench`."""
