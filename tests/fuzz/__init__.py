"""Mutated files of every kind that is read, and a watch over what comes of them."""
