"""Jobs: their runs reported, looked up, forgotten."""
