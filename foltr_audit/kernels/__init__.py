"""Compiled numerical kernels. They import nothing of foltr-audit and know arrays only."""
