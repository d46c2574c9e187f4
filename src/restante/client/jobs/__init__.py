"""Jobs: runs reported to a hub, and looked up."""
