"""Ways to forget clients, and what a model keeps of them. Begin with `experiment.py`."""
