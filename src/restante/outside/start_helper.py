"""`python -m restante.outside.start_helper MODULE` runs the module of a helper process, without pandas."""

from __future__ import annotations

import runpy
import sys

from restante.no_pandas import pandas_hidden

if __name__ == "__main__":
    with pandas_hidden():
        runpy.run_module(sys.argv[1], run_name="__main__")
