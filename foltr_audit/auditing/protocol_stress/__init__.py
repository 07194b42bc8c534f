"""Ways in which a server or a network can cheat or fail, each tried against an emulated protocol.

Begin with: `all_attempts.py`, then `staged_round.py`.
"""
