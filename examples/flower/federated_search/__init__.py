"""A small federation that learns to rank from clicks, recorded for an audit."""
