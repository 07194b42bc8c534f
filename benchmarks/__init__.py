"""Measurements of speed and memory: `python -m benchmarks`. Not part of the installed package."""
