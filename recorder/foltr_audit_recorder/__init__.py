"""Writes down what the server of a federation sees, as a trace that foltr-audit reads.

A distribution of its own, so that a server needs NumPy and nothing else. foltr-audit writes its own
traces with it, as `foltr_audit.recorder`.

May import: itself, by relative imports, and NumPy; modules about Flower also Flower.
Begin with: `part_files.py`, which says what lies in a trace folder.
"""

__version__ = "0.1.0"
