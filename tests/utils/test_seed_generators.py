"""Replayed generators draw what the programs themselves draw."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from foltr_audit.utils.seed_generators import SEED_GENERATORS, whole_numbers

SEEDS = (0, 1, 77, 2**31, 2**32 - 1)
NUMPY = SEED_GENERATORS[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_words_are_those_of_the_generator(seed: int) -> None:
    state, pcg = np.random.RandomState(seed), np.random.default_rng(seed)
    python = random.Random(seed)  # noqa: S311
    draws: list[Callable[[], int]] = [
        lambda: int(state.randint(0, 2**32)),
        lambda: python.getrandbits(32),
        lambda: int(pcg.integers(2**32)),
    ]
    for generator, draw in zip(SEED_GENERATORS, draws, strict=True):
        assert generator.words(seed, 700).tolist() == [draw() for _ in range(700)]


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_of_other_sizes_are_among_the_words(seed: int) -> None:
    """Seeds of 31, 63 and 64 bits, as programs draw them."""
    state, pcg = np.random.RandomState(seed), np.random.default_rng(seed)
    python = random.Random(seed)  # noqa: S311
    drawn = {
        (0, 31): [int(state.randint(0, 2**31)) for _ in range(20)],
        (1, 31): [python.getrandbits(31) for _ in range(20)],
        (2, 64): [int(pcg.integers(2**64, dtype=np.uint64)) for _ in range(20)],
    }
    state.seed(seed)
    drawn[0, 63] = [int(state.randint(0, 2**63)) for _ in range(20)]
    for (which, bits), numbers in drawn.items():
        words = SEED_GENERATORS[which].words(seed, 64)
        assert set(numbers) <= {int(number) for made in whole_numbers(words, bits) for number in made}


def test_pytorch_draws_words_of_randomstate() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.manual_seed(77)
    drawn = torch.randint(0, 2**31, (50,)).tolist()
    assert set(drawn) <= set((NUMPY.words(77, 100) % 2**31).tolist())
