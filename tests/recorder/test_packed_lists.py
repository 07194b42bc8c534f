"""Lists of clients: what goes out as bytes comes back, and bytes of strangers break nothing."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from foltr_audit.recorder import ShownList
from foltr_audit.recorder.packed_lists import pack_arrays, pack_lists, unpack_arrays, unpack_lists
from hypothesis import given
from hypothesis import strategies as st

FIELDS = ("features", "clicks", "shown", "candidates")


@st.composite
def shown_lists(draw: st.DrawFn) -> ShownList:
    """A list of 1 to 5 documents with 2 features, with some of what a client may tell."""
    k, seed = draw(st.integers(1, 5)), draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    return ShownList(
        features=rng.normal(size=(k, 2)),
        clicks=rng.random(k) < 0.5 if draw(st.booleans()) else None,
        shown=rng.permutation(9)[:k],
        query=draw(st.integers(0, 10**9)),
        part=draw(st.integers(0, 4)),
        candidates=rng.normal(size=(9, 2)) if draw(st.booleans()) else None,
        intent=draw(st.integers(0, 3)),
        clipped=draw(st.sampled_from([None, True, False])),
    )


@given(st.lists(shown_lists(), max_size=4))
def test_lists_come_back_as_they_went(lists: list[ShownList]) -> None:
    back = unpack_lists(pack_lists(lists))
    assert len(back) == len(lists)
    for one, other in zip(lists, back, strict=True):
        for name in FIELDS:
            mine, theirs = getattr(one, name), getattr(other, name)
            assert (mine is None) == (theirs is None)
            if mine is not None:
                np.testing.assert_array_equal(mine, theirs)
        assert (one.query, one.part, one.intent, one.clipped) == (
            *(other.query, other.part, other.intent, other.clipped),
        )


@given(st.data())
def test_damaged_bytes_are_refused_or_read_and_never_break(data: st.DataObject) -> None:
    """A server reads what anybody sends: it may get other numbers, and nothing worse than a ValueError."""
    good = bytearray(pack_lists([ShownList(features=np.ones((3, 2)), clicks=[1, 0, 0])]))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(good) - 1))
        good[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(good)))
    for broken in (bytes(good), bytes(good[:cut])):
        with contextlib.suppress(ValueError):
            unpack_lists(broken)


def test_a_header_that_promises_too_much_allocates_nothing() -> None:
    head = b'[{"name": "a", "dtype": "<f8", "shape": [1000000000, 1000000000]}]\n'
    with pytest.raises(ValueError, match="cut off"):
        unpack_arrays(b"foltr-audit/arrays/1\n" + head)
    with pytest.raises(ValueError, match="expected numbers"):
        unpack_arrays(b'foltr-audit/arrays/1\n[{"name": "a", "dtype": "|O", "shape": [1]}]\n12345678')
    with pytest.raises(ValueError, match="expected numbers"):
        pack_arrays({"a": np.array(["text"])})
    with pytest.raises(ValueError, match="4 bytes too many"):
        unpack_arrays(pack_arrays({"a": np.zeros(2)}) + b"1234")
