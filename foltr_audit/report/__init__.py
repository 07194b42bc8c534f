"""Results as typed records, and their forms: tables, pictures, HTML, Markdown, CSV, JSON.

May import: `evidence`, `experiments` and the rooms below them.
Begin with: `results/base.py`, then `results/attack.py`.
"""
