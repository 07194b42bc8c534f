"""Types of arrays, under the short names that annotations use.

Docstrings give the shape of each array in letters: C clients of a cohort, B interactions of each, k documents
of a shown list, P parameters; other letters are explained where they are used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Numbers in double precision."""

Features = NDArray[np.float32] | NDArray[np.float64]
"""Feature rows, in the number format that the user chose."""

Singles = NDArray[np.float32]
"""Numbers in single precision."""

Ints = NDArray[np.int64]
"""Whole numbers: indices, counts, labels; -1 stands for none."""

Words = NDArray[np.uint64]
"""Whole numbers modulo 2^64: masked messages, seeds and hashes."""

Bools = NDArray[np.bool_]
"""Clicks, and masks."""
