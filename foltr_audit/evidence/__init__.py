"""Evidence for others: bundles that they can verify, and checks of limits with exit codes.

May import: `experiments` and the rooms below it.
Begin with: `bundle.py`, then `check/outcomes.py`.
"""
