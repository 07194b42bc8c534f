"""The cache of parsed data: what identifies a collection, how it is stored, and where."""
