"""Groups: readers that share the feed under one name. Who has which partition, how far it has come, and what fences it."""
