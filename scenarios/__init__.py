"""Built-in scenarios: who the clients are and what they ask."""
