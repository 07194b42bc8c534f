"""Arrays that cells of a comparison share: the same bytes with and without a memo."""

from __future__ import annotations

from dataclasses import replace
from threading import Thread
from typing import Any

import numpy as np
import pytest

from foltr_audit.privacy.noise import GammaShare, Skellam
from foltr_audit.privacy.noise.base import AdditiveNoise
from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint
from foltr_audit.privacy.secure_aggregation.protocol import SecureSum
from foltr_audit.rng import Streams
from foltr_audit.utils.array_memo import ArrayMemo, at_least_remembering, remembered, remembering
from foltr_audit.utils.arrays import Floats


class Maker:
    """Makes arrays of eight bytes a number, and counts how many."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, name: str, size: int = 10) -> Floats:
        def make() -> Floats:
            self.made += 1
            return np.full(size, float(self.made))

        return remembered(lambda: name, make)


def test_outside_of_a_block_nothing_is_kept() -> None:
    make, memo = Maker(), ArrayMemo(1000)
    with remembering(memo):
        assert make("a")[0] == make("a")[0] == 1.0
        other = Thread(target=lambda: make("a"))  # a block is one thread's
        other.start()
        other.join()
    assert make.made == 2
    make("a")[0] = 7.0
    with remembering(memo):
        assert make("a")[0] == 1.0


def test_the_array_asked_for_longest_ago_goes_first_and_large_ones_are_not_kept() -> None:
    make = Maker()
    with remembering(ArrayMemo(250)):
        for name in "abcacb":  # three of 80 bytes fit
            make(name)
        assert make.made == 3
        make("d")  # of a, c and b, the first was used longest ago
        make("c"), make("b"), make("d")
        assert make.made == 4
        make("a")
        assert make.made == 5
        make("large", 16), make("large", 16)
        assert make.made == 7


def test_nobody_can_write_into_what_others_read() -> None:
    with remembering(ArrayMemo(1000)), pytest.raises(ValueError, match="read-only"):
        Maker()("a")[0] = 1.0


@pytest.mark.parametrize("law", [GammaShare(n=20, scale=2.0), Skellam(sigma=3.0, step=0.5)])
def test_draws_are_those_of_their_own_law_and_stream(law: AdditiveNoise) -> None:
    streams = Streams(1).clients("noise", 0, np.arange(5))
    changes: dict[str, Any] = {"round": 1, "purpose": "other", "key": 2, "clients": np.arange(1, 6)}
    others = [replace(streams, **{name: value}) for name, value in changes.items()]
    asked = [(law, each, 4) for each in (streams, *others, streams)]
    asked += [(law.summed(3), streams, 4), (law.with_variance(0.25), streams, 4), (law, streams, 3)]
    plain = [one.sample(where, size) for one, where, size in asked]
    with remembering(ArrayMemo(1 << 20)):
        kept = [one.sample(where, size) for one, where, size in asked]
    assert [each.tobytes() for each in kept] == [each.tobytes() for each in plain]


def test_masks_are_those_of_their_own_cohort() -> None:
    protocol = SecureSum(encoding=FixedPoint(bits=32, range=8.0, fraction=16))
    streams, counts = Streams(1).clients("masks", 0, np.arange(3)), np.ones(3, dtype=np.int64)
    values = np.linspace(-1.0, 1.0, 12).reshape(3, 4)
    asked = [(values, streams, 40), (2.0 * values, streams, 40), (values, streams, 4000)]
    asked += [(values, replace(streams, round=1), 40)]
    plain = [protocol.alone(each, counts, where, cohort).tobytes() for each, where, cohort in asked]
    with remembering(ArrayMemo(1 << 20)):
        kept = [protocol.alone(each, counts, where, cohort).tobytes() for each, where, cohort in asked]
    assert kept == plain
    assert len(set(plain)) == len(plain)


def test_a_block_that_asks_for_a_memo_takes_the_surrounding_one() -> None:
    make, memo = Maker(), ArrayMemo(1000)
    with remembering(memo):
        first = make("a")
        with at_least_remembering(1000):
            assert make("a") is first
    with at_least_remembering(1000):
        assert make("b") is make("b")
    assert make("b") is not make("b")
