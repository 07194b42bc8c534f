"""Generators of random numbers that other programs use, by name: the numbers that follow from a seed.

They replay what clients of another system drew from a seed that they sent, and play clients of the published
program of FOLtR-ES, which draw from one. Nothing else is drawn from them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from foltr_audit.utils.arrays import Floats, Words

NUMPY_RANDOMSTATE: Final = "numpy-randomstate"
"""`numpy.random.RandomState(seed)`, as a value of the fact `perturbation`."""

PERTURBATIONS: Final = ("foltr-audit", NUMPY_RANDOMSTATE)
"""Generators of perturbations that can be computed from seeds, by the names that the fact has."""


def numpy_state(seed: int) -> np.random.RandomState:
    """NumPy's RandomState after `seed(seed)`, a Mersenne Twister (Matsumoto & Nishimura 1998, section 2)."""
    return np.random.RandomState(seed)


def numpy_words(seeds: Words, count: int) -> Words:
    """The first words that RandomState draws after each seed (n,) below 2^32, uint64 (n, count)."""
    words = np.random.MT19937()  # the generator of RandomState
    out, state = np.empty((seeds.size, count), dtype=np.uint64), np.random.RandomState(words)
    for row, seed in enumerate(seeds.tolist()):
        state.seed(seed)  # a new RandomState would first ask the system for random numbers
        out[row] = words.random_raw(count)
    return out


def numpy_normals(seeds: Words, sigma: float, count: int) -> Floats:
    """Normal numbers that RandomState draws after each seed (n,) below 2^32, float64 (n, count).

    They are rounded to single precision, as in the published program of FOLtR-ES.
    """
    out, state = np.empty((seeds.size, count), dtype=np.float32), np.random.RandomState()
    for row, seed in enumerate(seeds.tolist()):
        state.seed(seed)
        out[row] = state.normal(0.0, sigma, count)
    return out.astype(np.float64)
