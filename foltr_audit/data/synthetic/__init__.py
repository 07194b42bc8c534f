"""Synthetic collections: shaped like published data sets, made from a seed."""
