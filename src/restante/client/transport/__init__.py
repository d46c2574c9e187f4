"""How calls travel: HTTP, web sockets, retries."""
