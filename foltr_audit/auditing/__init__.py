"""Claims of a chain of defenses checked by games with canaries; and the least noise for a target.

May import: `judge`, `simulation`, `inference` and the rooms below them.
Begin with: `audit.py`, then `session.py` and `estimators/`.
"""
