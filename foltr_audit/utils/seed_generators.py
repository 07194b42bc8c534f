"""Generators of random numbers that other programs use, by name: the numbers that follow from a seed.

They replay what clients of another system drew from a seed that they sent, and play clients of the published
program of FOLtR-ES, which draw from one. Nothing else is drawn from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from foltr_audit.utils.arrays import Floats, Words

NUMPY_RANDOMSTATE: Final = "numpy-randomstate"
"""`numpy.random.RandomState(seed)`, as a value of the fact `perturbation`."""

PERTURBATIONS: Final = ("foltr-audit", NUMPY_RANDOMSTATE)
"""Generators of perturbations that can be computed from seeds, by the names that the fact has."""

_WORD = 32  # bits


class SeedGenerator(NamedTuple):
    """A generator of 32-bit words.

    Attributes:
        called: what its users call it.
        words: the first words after a seed below 2^32, uint64 (count,), from the seed and a count.
    """

    called: str
    words: Callable[[int, int], Words]


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


def _numpy_words(seed: int, count: int) -> Words:
    return np.asarray(numpy_words(np.array([seed], dtype=np.uint64), count)[0])


def _python_words(seed: int, count: int) -> Words:
    # Python seeds the same generator by an array, as NumPy does where it is given one.
    state = np.random.RandomState([seed])
    return state.randint(0, 1 << _WORD, count, dtype=np.uint64)


def _pcg_words(seed: int, count: int) -> Words:
    return np.random.default_rng(seed).integers(0, 1 << _WORD, count, dtype=np.uint64)


SEED_GENERATORS: Final = (
    SeedGenerator("RandomState of NumPy, or PyTorch on a processor", _numpy_words),
    SeedGenerator("random of Python", _python_words),
    SeedGenerator("default_rng of NumPy", _pcg_words),
)
"""Generators that are often used without a thought of an attacker."""


def whole_numbers(words: Words, bits: int) -> Iterator[Words]:
    """Numbers of up to so many bits (31, 32, 63 or 64) that programs make of words (..., count).

    Numbers of one word less are cut at either end; numbers of two words join neighbours in either order.
    """
    joined = [words]
    if bits > _WORD:
        high, low = words[..., :-1], words[..., 1:]
        joined = [(high << np.uint64(_WORD)) | low, (low << np.uint64(_WORD)) | high]
    if bits % _WORD == 0:
        yield from joined
        return
    mask = np.uint64((1 << bits) - 1)
    for each in joined:
        yield each & mask
        yield each >> np.uint64(1)
