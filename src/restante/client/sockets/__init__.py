"""The publish socket: parcels over one web socket, with a window of one frame or of many."""
