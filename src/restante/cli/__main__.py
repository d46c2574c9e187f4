"""`python -m restante.cli` is `restante`."""

from __future__ import annotations

from restante.cli import main

if __name__ == "__main__":
    main()
