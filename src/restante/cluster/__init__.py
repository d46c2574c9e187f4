"""Several processes as one hub: shards, the calls that are carried to them, and the processes themselves."""
