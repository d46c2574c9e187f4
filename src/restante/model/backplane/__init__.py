"""What travels through a backplane: messages of one partition as a record, and what became of it."""
