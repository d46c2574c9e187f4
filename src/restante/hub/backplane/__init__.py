"""The backplane: publishes on their way through a log, stored by the owners of its partitions."""
