"""The surface that programs see, and the doors to it."""
