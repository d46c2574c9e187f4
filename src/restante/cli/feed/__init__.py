"""`restante feed`."""
