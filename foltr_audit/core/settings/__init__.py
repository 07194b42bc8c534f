"""The Spec: `experiment.py` has the whole, the other files have one table each."""
