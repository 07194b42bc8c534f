"""Client steps from functions of the user's: on NumPy, PyTorch and JAX arrays.

The libraries are imported when a step of theirs is made, and never otherwise.
"""
