"""What counts as rounding, in kernels and beside them."""

ROUNDING = 1e-9
"""A model that moves by a smaller part of its size has not moved: its norm differs in the last bits."""
