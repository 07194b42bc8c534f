"""The only room that holds a view and the truth together: observers, views, and scores of attacks.

May import: `simulation`, `inference`, `trace` and the rooms below them.
Begin with: `observer.py`, then `protocol.py`, which walks over the rounds, and `task.py`, what is asked.
"""
