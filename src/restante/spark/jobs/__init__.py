"""The jobs, a module each: a pure `transform`, and a `run` that reads, writes and says what it did."""
