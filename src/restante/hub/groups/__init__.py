"""Groups: readers that share the feed under one name."""
