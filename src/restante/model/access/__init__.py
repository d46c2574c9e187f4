"""Access: who may do what, and whose a thing is."""
