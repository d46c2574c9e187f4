"""The console beneath its pages: requests and answers, sessions, the way to the hub, streams."""
