"""`python -m restante`: the command line."""

from __future__ import annotations

from restante.cli import main

if __name__ == "__main__":
    main()
