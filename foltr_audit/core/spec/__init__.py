"""The Spec: one file for each of its tables, and `experiment.py` for the whole."""
