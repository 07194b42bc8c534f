"""Results as records, and their forms: table, JSON."""
