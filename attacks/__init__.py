"""Built-in attacks: from the view of one observer to click scores."""
