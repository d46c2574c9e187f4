"""Groups: members that share the feed."""
