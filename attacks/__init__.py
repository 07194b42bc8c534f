"""Built-in attacks: one observer's view in, click scores out."""
