"""Runs of Specs: plans, presets, Run folders, comparisons, recommendations and recorded attacks.

May import: `auditing`, `judge`, `simulation` and the rooms below them.
Begin with: `runner.py`, which runs the Specs of a plan, then `comparison/runner.py`.
"""
