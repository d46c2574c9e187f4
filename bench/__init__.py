"""The benchmark: the hub and its reference peers, measured in one run. `python -m bench --help` says how."""
