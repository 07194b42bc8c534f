"""What a system declares about its privacy, and checks of what follows from it.

Begin with `declared_system.py`, then `checks.py`.
"""
