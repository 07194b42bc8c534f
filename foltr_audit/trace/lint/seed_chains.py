"""Seeds that follow from other seeds: from earlier messages' by a known generator, or from small numbers."""

from __future__ import annotations

from functools import cache

import numpy as np

from foltr_audit.trace.lint.findings import FindingTally
from foltr_audit.utils.arrays import Bools, Words
from foltr_audit.utils.seed_generators import SEED_GENERATORS, SeedGenerator, whole_numbers

_BASES = 1000  # the last messages whose generators are replayed
_WORDS = 512  # words after each seed: what a client draws between two messages
_SMALL = 1 << 12  # seeds 0, 1, 2, ... from which a first seed may have been drawn
_FALSE_ALARM = 1e-9

TRIED = (
    f"tried were the first {_WORDS} words after the seeds of {_BASES:,} messages and after the numbers below "
    f"{_SMALL:,}, by {', '.join(generator.called for generator in SEED_GENERATORS)}"
)
"""What was tried, in words."""


class SeedChain:
    """Seeds that one generator makes of earlier messages' seeds, or of small numbers.

    Attributes:
        generator: it.
        tally: the seeds that it makes.
        expected: how many seeds would be found among its numbers by chance, at most.
    """

    def __init__(self, generator: SeedGenerator) -> None:
        self.generator = generator
        self.tally = FindingTally()
        self.expected = 0.0
        self._words = np.empty((0, _WORDS), dtype=np.uint64)

    def take(self, round_: int, seeds: Words) -> None:
        """Look for the seeds (M,) of a round in what follows from those before, and keep them."""
        bits = _bits(seeds)
        tried = [*whole_numbers(self._words, bits), *whole_numbers(_first_words(self.generator), bits)]
        found: Bools = np.isin(seeds, np.concatenate([numbers.ravel() for numbers in tried]))
        self.tally.messages_of(round_, found)
        self.expected += seeds.size * sum(numbers.size for numbers in tried) / 2.0**bits
        new = [self.generator.words(seed, _WORDS) for seed in seeds[-_BASES:].tolist() if seed < 1 << 32]
        self._words = np.concatenate([self._words, np.array(new, dtype=np.uint64).reshape(-1, _WORDS)])
        self._words = self._words[-_BASES:]

    @property
    def found(self) -> bool:
        """Whether so many seeds are made by chance at most once in a billion traces."""
        from scipy.stats import poisson

        # A sum of rare and nearly independent hits: the Poisson law of the largest mean bounds it from above.
        return bool(poisson.sf(self.tally.hits - 1, self.expected) <= _FALSE_ALARM)


def _bits(seeds: Words) -> int:
    """31, 32, 63 or 64: the fewest bits of these that hold all seeds (M,)."""
    largest = int(seeds.max(initial=0))
    return next(bits for bits in (31, 32, 63, 64) if largest < 1 << bits)


@cache
def _first_words(generator: SeedGenerator) -> Words:
    """The first two words after each small seed, uint64 (numbers, 2): the second for seeds of two words."""
    return np.array([generator.words(seed, 2) for seed in range(_SMALL)], dtype=np.uint64)
