"""Who may do what, and whose a thing is."""
