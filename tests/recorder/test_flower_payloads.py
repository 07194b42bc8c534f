"""What travels in messages of Flower, by other routes; Flower itself is not needed here."""

from __future__ import annotations

import contextlib
import io
import logging
import zipfile

import numpy as np
import pytest
from foltr_audit.recorder import ShownList
from foltr_audit.recorder.array_layout import npy_array
from foltr_audit.recorder.flower.open_round import SecAggRound
from foltr_audit.recorder.packed_lists import pack_arrays, pack_lists, unpack_arrays, unpack_lists
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray

from tests.fixtures.there import there

DTYPES = ("<f8", "<f4", "<f2", ">f8", "<i8", "<u2", "|b1", "|i1")
SETTINGS = {"clipping_range": 8.0, "target_range": 2**22, "mod_range": 2**32, "max_weight": 1000.0}
SETTINGS |= {"share_num": 5, "threshold": 3}

# --- arrays -----------------------------------------------------------------------------------------


SHAPES = arrays_of.array_shapes(min_dims=0, max_dims=3)
ARRAYS = st.sampled_from(DTYPES).flatmap(lambda dtype: arrays_of.arrays(np.dtype(dtype), SHAPES))


def saved(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values, allow_pickle=True)
    return stream.getvalue()


@given(ARRAYS, st.booleans())
def test_an_array_is_what_numpy_reads(values: np.ndarray, by_columns: bool) -> None:
    data = saved(np.asfortranarray(values) if by_columns and values.ndim else values)
    found = npy_array("weight", data)
    np.testing.assert_array_equal(found.values, values)
    assert (found.place.name, found.place.shape) == ("weight", values.shape)
    assert found.place.dtype == values.dtype.name


def test_arrays_of_something_else_than_numbers_are_refused() -> None:
    others: list[list[object]] = [["a"], [1j], [np.datetime64("2026-11-23")], [{}]]
    for values in others:
        with pytest.raises(ValueError, match=r"array weight.* expected numbers"):
            npy_array("weight", saved(np.array(values)))
    with pytest.raises(ValueError, match="magic string"):
        npy_array("weight", b"no array at all")


# --- secure aggregation ------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.lists(st.integers(1, 900), min_size=2, max_size=6), st.integers(1, 5))
def test_the_sum_is_found_from_the_mean_that_a_server_made(seed: int, counts: list[int], width: int) -> None:
    """Clients and server by the words of the protocol: quantise, add up, subtract the offsets, divide."""
    rng = np.random.default_rng(seed)
    clip, levels = SETTINGS["clipping_range"], int(SETTINGS["target_range"])
    words = []
    for count in counts:
        ratio = round(count / SETTINGS["max_weight"] * levels)
        model = np.clip(rng.normal(size=width) * (ratio / levels), -clip, clip)
        words.append([ratio, *np.floor((model + clip) * levels / (2 * clip)).astype(int)])
    total = np.sum(words, axis=0)
    mean = total[1:] * (2 * clip / levels) - clip - (len(counts) - 1) * clip
    mean = mean * (levels / total[0])
    found = there(SecAggRound(settings=dict(SETTINGS)).total(mean, counts))
    np.testing.assert_array_equal(found, total.astype(np.uint64))
    # A mean that was changed afterwards, here by half a word, is no mean of words: nothing is told.
    half = (clip / levels) * (levels / total[0])
    assert SecAggRound(settings=dict(SETTINGS)).total(mean + half, counts) is None


def test_why_there_is_no_sum() -> None:
    seen = SecAggRound(settings=dict(SETTINGS))
    assert seen.missing_sum(0) == "no masked message arrived"
    assert seen.missing_sum(4) == "halted before the unmask stage"
    for node in range(4):
        seen.sent(node, {"stage": "unmask", "active_nids": [0, 1, 2], "dead_nids": [3]})
    for node in range(3):
        seen.answered(node, {"nids": [0, 1, 2, 3], "shares": [b""] * 4})
        assert bool(seen.missing_sum(4)) == (node < 2)
    assert {(row.node, row.stage) for row in seen.outcomes} == {
        *((node, "unmask: shares of the mask seed") for node in range(3)),
        (3, "unmask: shares of the secret key"),
    }


def test_a_coarse_weight_is_said_with_the_size_of_its_steps(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "foltr_audit_recorder"):
        SecAggRound(settings=dict(SETTINGS)).warn_of_rounding([500, 300])
        assert not caplog.records
        SecAggRound(settings=dict(SETTINGS)).warn_of_rounding([1, 1])
    assert "steps of 0.0038; with max_weight=1 to steps of 3.8e-06" in caplog.text


# --- lists of clients -----------------------------------------------------------------------------


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


def archive(content: bytes, name: str = "a.npy", way: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", way) as made:
        made.writestr(name, content)
    return stream.getvalue()


def npy(values: NDArray[np.generic]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values, allow_pickle=True)
    return stream.getvalue()


def test_bytes_that_promise_too_much_allocate_nothing() -> None:
    endless = npy(np.zeros(1)).replace(b"(1,), }" + b" " * 18, b"(1000000000000000000,), }")
    objects = npy(np.array([None]))
    for data in (archive(endless), archive(objects), archive(npy(np.zeros(9)), way=zipfile.ZIP_DEFLATED)):
        with pytest.raises(ValueError, match="these bytes hold no packed arrays"):
            unpack_arrays(data)
    with pytest.raises(ValueError, match="expected numbers"):
        pack_arrays({"a": np.array(["text"])})
