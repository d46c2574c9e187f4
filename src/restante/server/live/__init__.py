"""Live delivery: a connected client gets new messages at once; a slow one gets them later, but loses none."""
