"""Runs on disk: their folder, how they are found again, and how two of them differ."""
