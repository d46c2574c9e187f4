"""How messages, answers and errors look on the wire: bytes in, values and columns out, and the way back. No I/O."""
