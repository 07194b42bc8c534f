"""Compiled numerical kernels. They import nothing of foltr-audit and know arrays only.

May import: NumPy, Numba, `threading` and each other; `jit.py` also what stores compiled code.
Begin with: `jit.py`, then `local_steps.py`, the local steps of a whole cohort.
"""
