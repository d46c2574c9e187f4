"""`restante backup`, `restore`, `doctor`, `migrate`."""
