"""Comparisons: a grid of Specs, its cells run side by side and stored one by one."""
