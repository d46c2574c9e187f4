"""Several nodes on one store: who is there, who owns which shard, and the connections between them."""
