"""The only room that holds a view and the truth together: observers, views, and scores of attacks.

May import: `simulation`, `inference`, `trace` and the rooms below them.
Begin with: `observer.py`, then `clicks.py`, which runs attacks and joins the truth to their answers.
"""
