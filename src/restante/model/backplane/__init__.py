"""Records of a backplane: messages of one partition, and what became of them."""
