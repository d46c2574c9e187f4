"""Groups: readers that share the feed under one name. Their members, the partitions of each, positions and generations."""
