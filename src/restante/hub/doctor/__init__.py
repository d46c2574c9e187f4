"""The doctor: every checksum and invariant of a store, examined."""
