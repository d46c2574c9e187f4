"""The core of all that gathers, sends together and settles: a pure queue, and a sender of tasks or of threads."""
