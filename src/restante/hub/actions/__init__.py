"""Actions: accepted, looked up, reported, and what could not be done."""
