"""The computations that attacks share: replays of the client's steps, likelihoods of clicks, and searches.

May import: `core` and the rooms below it; never the truth.
Begin with: `replay.py`, then `pattern_decoder.py`.
"""
