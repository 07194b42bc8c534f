"""Built-in defenses: what clients, the wire and the server do to protect a message."""
