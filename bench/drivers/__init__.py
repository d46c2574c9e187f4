"""How small publishes are sent in load processes (`bench.load`): a file for each server, ours among them."""
