"""Recommending a defense: a search for the best nDCG@10 among those that keep limits on what leaks."""
