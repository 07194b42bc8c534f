"""Results as typed records, and their forms: tables, pictures, HTML, Markdown, CSV, JSON.

May import: `experiments` and the rooms below it.
Begin with: `settings.py`, then `attack.py`.
"""
