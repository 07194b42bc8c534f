"""Audits check the claims of a chain of defenses by games with canaries. Also: the least noise for a target.

May import: `judge`, `simulation`, `inference` and the rooms below them.
Begin with: `audit.py`, then `session.py` and `estimators/`.
"""
