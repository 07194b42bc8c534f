"""LETOR text files: their reader and their writer."""
