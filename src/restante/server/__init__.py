"""The hub on the network: HTTP and WebSocket over a hub in this process. Needs the extra `restante[server]`."""
