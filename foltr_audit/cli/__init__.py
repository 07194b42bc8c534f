"""The command line: it parses, calls and renders; nothing else.

May import: every room, and the studies.
Begin with: `main.py`, then one module for each command.
"""
