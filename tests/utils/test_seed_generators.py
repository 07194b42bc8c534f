"""Replayed generators draw what the programs themselves draw."""

from __future__ import annotations

import numpy as np

from foltr_audit.utils.seed_generators import numpy_normals, numpy_words

SEEDS = np.array([0, 1, 77, 2**31, 2**32 - 1], dtype=np.uint64)


def test_words_and_normal_numbers_are_those_of_randomstate() -> None:
    words, normals = numpy_words(SEEDS, 700), numpy_normals(SEEDS, 0.5, 30)
    for seed, drawn, moved in zip(SEEDS.tolist(), words, normals, strict=True):
        state = np.random.RandomState(seed)
        assert drawn.tolist() == [state.randint(0, 2**32) for _ in range(700)]
        expected = np.random.RandomState(seed).normal(0.0, 0.5, 30).astype(np.float32)
        assert moved.tolist() == expected.tolist()
