"""The random streams: Philox against its published answers, and what a stream's name promises."""

from __future__ import annotations

import copy
import hashlib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foltr_audit.kernels import philox
from foltr_audit.kernels.jit import kernel
from foltr_audit.kernels.philox import uniforms
from foltr_audit.rng import ClientStreams, Streams
from tests.fixtures.reference import LOW, Words, chi_square_p, numba_threads, philox_counter, philox_words

# kat_vectors of the Random123 distribution, "philox4x32 10": counter, key words, answer.
KNOWN = """
00000000 00000000 00000000 00000000  00000000 00000000  6627e8d5 e169c58d bc57ac4c 9b00dbd8
ffffffff ffffffff ffffffff ffffffff  ffffffff ffffffff  408f276d 41c83b0e a20bc7c6 6d5451fd
243f6a88 85a308d3 13198a2e 03707344  a4093822 299f31d0  d16cfe09 94fdcceb 5001e420 24126ea1
"""
WORD = st.integers(0, LOW)
COUNTER = st.tuples(WORD, WORD, WORD, WORD)
KEY = st.integers(0, 2**64 - 1)
CLIENTS = np.arange(100)


@kernel
def four_words(c0: int, c1: int, c2: int, c3: int, key: np.uint64) -> tuple[np.uint64, ...]:
    return philox.philox(c0, c1, c2, c3, key)


def kernel_words(counter: Words, key: int) -> tuple[int, ...]:
    return tuple(int(word) for word in four_words(*counter, np.uint64(key)))


def uniform(n: int, client: int, round_: int, purpose: int, key: int) -> float:
    return float(uniforms(n, 1, np.array([client]), round_, purpose, np.uint64(key))[0, 0])


def numbers(streams: ClientStreams, size: int = 400) -> NDArray[np.float64]:
    return streams.uniform(size).ravel()


@pytest.mark.parametrize("line", KNOWN.strip().splitlines())
def test_known_answers(line: str) -> None:
    a, b, c, d, low, high, *answer_ = (int(word, 16) for word in line.split())
    counter, whole, answer = (a, b, c, d), low | high << 32, tuple(answer_)
    assert kernel_words(counter, whole) == answer
    assert philox_words(counter, whole) == answer
    assert philox_counter(answer, whole) == counter


@settings(max_examples=100, derandomize=True)
@given(COUNTER, KEY)
def test_equals_philox_on_python_integers(counter: Words, key: int) -> None:
    words = philox_words(counter, key)
    assert kernel_words(counter, key) == words
    block, client, round_, purpose = counter
    for half in (0, 1):  # a block gives two numbers
        high, low = words[2 * half : 2 * half + 2]
        middle = Fraction(2 * ((high << 32 | low) >> 12) + 1, 2**53)
        assert Fraction(uniform(2 * block + half, client, round_, purpose, key)) == middle


@pytest.mark.parametrize("word", [0, LOW])
def test_the_ends_of_the_interval_are_open(word: int) -> None:
    """Counters found by running Philox backwards from the smallest and the largest words."""
    key = Streams(1).key
    counter = philox_counter((word, word, 0, 0), key)
    assert kernel_words(counter, key) == (word, word, 0, 0)
    assert 0.0 < uniform(2 * counter[0], *counter[1:], key) < 1.0


def test_streams_of_different_names_are_independent() -> None:
    clients = np.arange(200)
    base = Streams(1).clients("clicks", 3, clients)
    others = {
        "purpose": Streams(1).clients("show", 3, clients),
        "round": Streams(1).clients("clicks", 4, clients),
        "client": Streams(1).clients("clicks", 3, clients + 1),
        "far client": Streams(1).clients("clicks", 3, clients + 1000),
        "seed": Streams(2).clients("clicks", 3, clients),
        "repetition": Streams(1, 1).clients("clicks", 3, clients),
    }
    even = np.full(256, 1 / 256)

    def p_value(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
        cells = (one * 16).astype(np.int64) * 16 + (two * 16).astype(np.int64)
        return chi_square_p(np.bincount(cells, minlength=256), even)

    u = numbers(base)
    for name, streams in others.items():
        v = numbers(streams)
        assert p_value(u, v) > 1e-4, name
        if name != "client":  # its streams are the base's, one place on
            assert not np.intersect1d(u, v).size, name
    table = base.uniform(401)
    assert p_value(table[:, :-1].ravel(), table[:, 1:].ravel()) > 1e-4
    assert p_value(u, u) == 0.0


def test_no_number_comes_twice() -> None:
    u = np.concatenate(
        [numbers(Streams(5).clients(p, r, CLIENTS), 100) for p in ("a", "b") for r in range(5)]
    )
    assert np.unique(u).size == u.size


@settings(max_examples=50, derandomize=True)
@given(
    clients=st.lists(st.integers(0, 2**31), min_size=1, max_size=6),
    round_=st.integers(0, 10**6),
    first=st.integers(0, 10**6),
    size=st.integers(1, 8),
)
def test_a_number_depends_on_its_name_only(clients: list[int], round_: int, first: int, size: int) -> None:
    ids = np.array(clients, dtype=np.int64)
    streams = Streams(9).clients("queries", round_, ids)
    together = streams.uniform(size, first=first)
    assert together.shape == (ids.size, size)
    for row, client in zip(together, ids, strict=True):
        alone = Streams(9).clients("queries", round_, np.array([client]))
        backwards = [alone.uniform(1, first=first + i)[0, 0] for i in reversed(range(size))]
        assert row.tolist() == backwards[::-1]
    np.testing.assert_array_equal(streams.uniform(size, first=first), together)


def test_generators_of_the_server_are_named_too() -> None:
    def draw(seed: int, repetition: int, purpose: str) -> float:
        return float(Streams(seed, repetition).generator(purpose).random())

    names = [(1, 0, "bootstrap"), (2, 0, "bootstrap"), (1, 1, "bootstrap"), (1, 0, "attack")]
    first = [draw(*name) for name in names]
    assert len(set(first)) == len(names)
    assert [draw(*name) for name in reversed(names)] == first[::-1]


def test_streams_under_a_name_are_those_of_the_longer_purpose_and_do_not_show_it() -> None:
    """A defense draws other numbers in an audit than in training, and cannot tell which of both it is in."""
    who = np.arange(5)
    own = Streams(3, 2).under("audit/").under("law/")
    drawn, longer = (
        own.clients("noise", 4, who),
        Streams(3, 2).clients("audit/law/noise", 4, who),
    )
    assert drawn.uniform(6).tobytes() == longer.uniform(6).tobytes()
    assert drawn.secret("pair", 1) == longer.secret("pair", 1)
    assert own.generator("x").random() == Streams(3, 2).generator("audit/law/x").random()
    branches = Streams(3, 2, branch="b", shared=("noise",))
    assert branches.under("n").key == branches.key
    assert branches.under("no").clients("ise", 4, who).key == Streams(3, 2).key
    plain = Streams(3, 2).clients("noise", 4, who)
    for shown, usual in ((own, Streams(3, 2)), (drawn, plain)):
        names = [name for name in dir(usual) if not name.startswith("_") and name != "purpose_code"]
        values = [(getattr(shown, name), getattr(usual, name)) for name in names]
        assert all(callable(a) or np.array_equal(a, b) for a, b in values)
        assert repr(shown) == repr(usual)


def test_a_generator_is_numpys_own_of_its_key_and_its_children_come_again() -> None:
    drawn = Streams(3).generator("bootstrap")
    name = f"{Streams(3).key}/bootstrap".encode()
    key = int.from_bytes(hashlib.blake2b(name, digest_size=16).digest(), "little")
    assert drawn.bit_generator.random_raw(9).tolist() == np.random.Philox(key=key).random_raw(9).tolist()
    again = Streams(3).generator("bootstrap")
    children = [child.random() for twin in (drawn, again) for _ in range(2) for child in twin.spawn(2)]
    assert children[:4] == children[4:]
    assert len(set(children)) == 4
    assert copy.deepcopy(again).random() == again.random()


def test_any_number_of_threads_gives_the_same_bytes() -> None:
    ids = np.arange(1000)
    with numba_threads(2):
        two = uniforms(0, 50, ids, 1, 2, np.uint64(3)).tobytes()
    with numba_threads(1):
        assert uniforms(0, 50, ids, 1, 2, np.uint64(3)).tobytes() == two
