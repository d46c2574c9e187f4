"""Mailboxes: peek, dequeue, explain, history, and what waits where."""
