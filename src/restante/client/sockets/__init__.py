"""The publish socket: frames over one web socket, with a window of one frame or of many."""
