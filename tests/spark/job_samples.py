"""The sample jobs, put among the real ones: here, and in a program of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from restante.spark import jobs

SAMPLES = Path(__file__).parent / "sample_jobs"


def with_samples() -> list[str]:
    """Where jobs are looked for, with the samples among them."""
    return [*jobs.__path__, str(SAMPLES)]


if __name__ == "__main__":
    from restante.cli import main

    jobs.__path__ = with_samples()
    sys.argv[0] = "restante"
    main()
