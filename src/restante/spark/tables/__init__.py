"""Delta tables and files."""
