"""Evidence for others: bundles that they can verify, and checks of limits with exit codes.

May import: `report`, `experiments` and the rooms below them.
Begin with: `bundle.py`, then `check/limits.py`.
"""
