"""What noise proves: norms of distances, privacy losses, and how losses compose. Begin with `losses.py`."""
