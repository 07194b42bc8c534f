"""Documents of results, and their forms: tables, pictures, HTML, Markdown, CSV, JSON.

May import: `evidence`, `experiments` and the rooms below them.
Begin with: `documents.py`, then `attack.py`.
"""
