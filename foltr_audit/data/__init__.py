"""Ranking data: LETOR files, synthetic collections, intents, and the cache of parsed data.

May import: `core` and the rooms below it.
Begin with: `load.py`, which turns the `data` table of a Spec into a collection.
"""
