"""Client steps from functions of the user's: on NumPy and PyTorch arrays.

PyTorch is imported when a step of its is made, and never otherwise.
"""
