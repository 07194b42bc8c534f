"""What a system declares about its privacy, and checks of what follows from it.

Begin with `declared_system.py`, then `all_checks.py`. A system comes from a chain of defenses
(`chain_steps.py`), from a file that describes it (`system_file.py`), or from the header of a trace
(`trace/declared_header.py`).
"""
