"""Noise, privacy events and their accounting: what a chain of defenses proves.

May import: `errors`, `rng`, `utils` and `kernels`.
Begin with: `events.py`, then `accounting/bound.py`, where a proven epsilon is computed.
"""
