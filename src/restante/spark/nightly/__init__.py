"""The parts of the job `nightly-run`: what it reads, and how it settles."""
