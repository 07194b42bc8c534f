"""The federation: clients, rounds, learners, training, evaluation, and the recorder of traces.

May import: `trace`, `data`, `core` and the rooms below them.
Begin with: `setup.py`, then `client.py`, where a defense acts, and `federation.py`.
"""
