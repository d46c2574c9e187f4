"""The core of clients that gather items and send them together: a pure queue, and a sender with tasks or threads."""
