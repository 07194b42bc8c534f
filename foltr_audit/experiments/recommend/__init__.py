"""Recommends a defense: the one with the best nDCG@10 within limits on what leaks."""
