"""The checks of declarations, one module for each subject; `core/declared/all_checks.py` lists them."""
