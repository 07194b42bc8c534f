"""Secure sums against plain ones, drop-outs, aborted rounds, the graph of neighbours and the costs."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foltr_audit.errors import FoltrAuditError, UsageError
from foltr_audit.privacy.secure_aggregation import (
    FixedPoint,
    SecureSum,
    SecureSumResult,
    keys,
    protocol,
)
from foltr_audit.privacy.secure_aggregation.keys import MaskGraph
from foltr_audit.privacy.secure_aggregation.protocol import circle, client_seconds
from foltr_audit.rng import ClientStreams, Streams

ENCODING = FixedPoint(bits=40, range=8, fraction=20)


def streams(clients: NDArray[np.int64], round_: int = 0) -> ClientStreams:
    return Streams(1).clients("secure", round_, clients)


def where(n: int, *places: int) -> NDArray[np.bool_]:
    return np.isin(np.arange(n), places)


def same(one: NDArray[Any] | None, two: NDArray[Any] | None) -> bool:
    """Whether there are two sums and they are equal."""
    return one is not None and two is not None and np.array_equal(one, two)


def plain_sum(
    encoding: FixedPoint, values: NDArray[Any], weights: NDArray[np.int64], there: NDArray[np.bool_]
) -> NDArray[np.uint64]:
    """The sum of the encodings, in Python's integers."""
    signed = encoding.signed(encoding.encode(values[there], weights[there]))
    return np.array([sum(column) % 2**encoding.bits for column in signed.T.tolist()], dtype=np.uint64)


def enough(
    outcome: SecureSumResult, graph: MaskGraph, shared: NDArray[np.bool_], sends: NDArray[np.bool_]
) -> bool:
    """Whether a round must give a sum, by looking at one client after the other."""
    if min(shared.sum(), sends.sum()) < outcome.parameters.at_least:
        return False
    linked: set[int] = set()
    grown = {int(np.flatnonzero(sends)[0])}
    while grown:
        linked |= grown
        grown = {int(o) for c in grown for o in graph.table[c] if sends[o]} - linked
    for place in range(sends.size):
        holders = int(sends[graph.table[place]].sum())
        if (sends[place] or (shared[place] and holders)) and holders < outcome.parameters.shares_needed:
            return False
    return len(linked) == int(sends.sum())


# --- the sum --------------------------------------------------------------------------------------


@st.composite
def cohorts(draw: st.DrawFn) -> tuple[Any, ...]:
    n, P = draw(st.integers(1, 14)), draw(st.sampled_from([1, 1, 3]))
    kind = draw(st.sampled_from([np.float32, np.float64]))
    number = st.floats(-8, 8, width=32) | st.sampled_from([0.0, 8.0, -8.0, 1e-30, -5e-324])
    values = np.array(draw(st.lists(number, min_size=n * P, max_size=n * P)), dtype=kind).reshape(n, P)
    weights = np.array(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    clients = np.array(draw(st.lists(st.integers(0, 10**6), min_size=n, max_size=n, unique=True)))
    before = np.array(draw(st.lists(st.sampled_from([False] * 5 + [True]), min_size=n, max_size=n)))
    after = np.array(draw(st.lists(st.sampled_from([False] * 3 + [True]), min_size=n, max_size=n)))
    secure = SecureSum(
        encoding=ENCODING,
        neighbours=draw(st.sampled_from([0, 2, 3, 4, "all"])),
        threshold=draw(st.sampled_from([0.1, 0.3, 0.5, 0.8, 2, 5])),
        agreement=draw(st.sampled_from(["none", "none", "none", "x25519"])),
    )
    return secure, values, weights, clients, before, after


@settings(max_examples=120)
@given(cohorts())
def test_the_secure_sum_is_the_sum_of_the_encodings(cohort: tuple[Any, ...]) -> None:
    secure, values, weights, clients, before, after = cohort
    outcome = secure.run(values, weights, streams(clients), before, after)
    shared, sends = ~before, ~(before | after)
    graph = MaskGraph(order_of(clients), outcome.parameters.neighbours)
    assert (not outcome.aborted) == enough(outcome, graph, shared, sends)
    if not outcome.aborted:
        assert outcome.total is not None
        assert outcome.sum is not None
        assert same(outcome.total, plain_sum(ENCODING, values, weights, sends))
        assert np.array_equal(outcome.sum, ENCODING.decode(outcome.total))
    else:
        assert outcome.total is None
        assert outcome.sum is None
    expected = np.zeros_like(sends) if shared.sum() < outcome.parameters.at_least else sends
    assert np.array_equal(outcome.survivors, expected)
    assert not outcome.payload[~outcome.survivors].any()
    bare = SecureSum(encoding=ENCODING, neighbours=secure.neighbours, threshold=secure.threshold, masks=False)
    unmasked = bare.run(values, weights, streams(clients), before, after)
    assert unmasked.aborted == outcome.aborted, "masks change nothing else"
    assert np.array_equal(unmasked.payload[expected], ENCODING.encode(values, weights)[expected])
    if outcome.total is not None:
        assert same(unmasked.total, outcome.total)
    short = secure.run(values, weights, streams(clients), before, after, sum_only=True)
    assert_same_but_for_messages(short, outcome)


def assert_same_but_for_messages(short: SecureSumResult, full: SecureSumResult) -> None:
    """A round of which only the sum is asked for is the round of the whole protocol without messages."""
    assert not short.payload.any()
    assert short.payload.shape == full.payload.shape
    for name in ("survivors", "total", "sum", "sent"):
        one, two = getattr(short, name), getattr(full, name)
        assert (one is None) == (two is None)
        assert one is None or (one.dtype == two.dtype and one.tobytes() == two.tobytes()), name
    assert (short.aborted, short.parameters) == (full.aborted, full.parameters)


@pytest.mark.parametrize("agreement", ["none", "x25519"])
@pytest.mark.parametrize("digests", [None, [b"a"] * 9])
def test_masks_that_cancel_are_not_made_for_a_sum_alone(
    agreement: Any, digests: list[bytes] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure = SecureSum(encoding=ENCODING, agreement=agreement)
    values, weights = np.random.default_rng(5).normal(size=(9, 3)), np.arange(1, 10)
    given = (values, weights, streams(np.arange(9)), where(9, 2), where(9, 7), digests)
    full = secure.run(*given)
    assert full.payload.any()
    made: list[int] = []
    monkeypatch.setattr(keys, "expand", lambda seeds, size: made.append(len(seeds)))
    assert_same_but_for_messages(secure.run(*given, sum_only=True), full)
    assert not made


def test_masks_that_do_not_cancel_are_made_for_a_sum_too() -> None:
    secure, digests = SecureSum(encoding=ENCODING), [b"a"] * 8 + [b"b"]
    values, weights = np.random.default_rng(5).normal(size=(9, 3)), np.arange(1, 10)
    given = (values, weights, streams(np.arange(9)), None, None, digests)
    full = secure.run(*given)
    assert not same(full.total, plain_sum(ENCODING, values, weights, where(9, *range(9))))
    assert_same_but_for_messages(secure.run(*given, sum_only=True), full)


def order_of(clients: NDArray[np.int64], round_: int = 0, neighbours: int = 0) -> NDArray[np.int64]:
    """The circle of a round."""
    return circle(streams(clients, round_), neighbours).order


def test_the_same_bytes_again_in_any_order_and_in_parts_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    n = 30
    values, weights, clients = rng.normal(size=(n, 4)).clip(-8, 8), rng.integers(1, 5, n), rng.permutation(n)
    before, after = where(n, 3), where(n, 7, 8)
    secure = SecureSum(encoding=ENCODING, neighbours=10)
    one = secure.run(values, weights, streams(clients), before, after)
    monkeypatch.setattr(keys, "_AT_ONCE", 10)
    two = secure.run(values, weights, streams(clients), before, after)
    p = rng.permutation(n)
    three = secure.run(values[p], weights[p], streams(clients[p]), before[p], after[p])
    assert not one.aborted
    assert np.array_equal(one.payload, two.payload)
    assert np.array_equal(one.payload[p], three.payload)
    assert same(one.total, three.total)


# --- rounds that abort ----------------------------------------------------------------------------


def run(n: int, before: tuple[int, ...] = (), after: tuple[int, ...] = (), **options: Any) -> SecureSumResult:
    secure = SecureSum(encoding=ENCODING, **options)
    ones = np.ones(n, dtype=np.int64)
    return secure.run(np.ones((n, 2)), ones, streams(np.arange(n)), where(n, *before), where(n, *after))


def test_too_few_keys_too_few_messages() -> None:
    few = run(6, before=(0, 1, 2))
    assert few.aborted == "shares: 3 of 6 clients shared keys, 4 needed"
    assert not few.survivors.any()
    assert not few.payload.any()
    assert few.sent[:, 2:].sum() == 0
    late = run(6, before=(0,), after=(1, 2))
    assert late.aborted == "masked: 3 of 6 clients sent a masked message, 4 needed"
    assert late.survivors.sum() == 3
    assert late.payload.any(axis=1).sum() == 3, "the server has the masked messages all the same"
    assert late.sent[:, 3].sum() == 0


CIRCLE, RING = tuple(order_of(np.arange(40)).tolist()), tuple(order_of(np.arange(12)).tolist())


@pytest.mark.parametrize(
    ("n", "options", "aborted"),
    [
        (6, {"before": (0,), "after": (1,)}, False),
        # nobody sums one client
        (1, {}, True),
        (2, {}, False),
        (2, {"after": (1,)}, True),
        (5, {"before": (0, 1), "after": (2, 3), "threshold": 0.01}, True),
        (3, {"threshold": 4}, True),
        # every client knows five on each side and needs six shares
        (40, {"after": CIRCLE[:5], "neighbours": 10}, "unmask: 5 neighbours of client .* survive, 6 needed"),
        (40, {"after": CIRCLE[:4], "neighbours": 10}, False),
        # groups that share no mask would show their own sums
        (12, {"before": (RING[0], RING[6]), "neighbours": 2, "threshold": 2}, "fall apart into 2 groups"),
        (12, {"before": RING[:2], "neighbours": 2, "threshold": 2}, False),
    ],
)
@pytest.mark.parametrize("masks", [True, False])
def test_rounds_that_abort(n: int, options: dict[str, Any], aborted: bool | str, masks: bool) -> None:
    outcome = run(n, masks=masks, **options)
    assert bool(outcome.aborted) == bool(aborted) == (outcome.total is None)
    assert isinstance(aborted, bool) or re.search(aborted, outcome.aborted)


def test_recovery_really_goes_through_the_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one share tampered with, or with one share less than the threshold, the sum is wrong."""
    honest = keys.reconstruct
    right = run(20, after=(4,))

    def tampered(held: dict[int, int]) -> bytes | None:
        first, *rest = held.items()
        return honest(dict([(first[0], first[1] ^ 1), *rest]))

    def too_few(held: dict[int, int]) -> bytes | None:
        return honest(dict(list(held.items())[1:]))

    assert same(run(20, after=(4,)).total, right.total)
    for wrong in (tampered, too_few):
        monkeypatch.setattr(protocol, "reconstruct", wrong)
        assert not same(run(20, after=(4,)).total, right.total)
    monkeypatch.setattr(protocol, "reconstruct", lambda held: None)
    with pytest.raises(FoltrAuditError, match="do not fit"):
        run(20)


# --- the graph ------------------------------------------------------------------------------------


def even(wanted: int, n: int) -> int:
    """How many neighbours each of n clients on a circle can have: an even number, or all others."""
    return SecureSum(encoding=ENCODING, neighbours=wanted).plan(n).neighbours


@given(st.integers(1, 40), st.integers(1, 45), st.integers(0, 2**32))
def test_the_graph_is_regular_and_mutual(n: int, wanted: int, seed: int) -> None:
    degree = even(wanted, n)
    graph = MaskGraph(np.random.default_rng(seed).permutation(n), degree)
    linked = np.zeros((n, n), dtype=np.int64)
    for left, right in graph.rings():
        assert np.unique(left).size == left.size
        assert np.unique(right).size == right.size
        np.add.at(linked, (left, right), 1)
    assert np.array_equal(linked + linked.T, np.minimum(linked + linked.T, 1)), "every pair once"
    assert not linked.diagonal().any()
    from_table = np.zeros((n, n), dtype=np.int64)
    np.add.at(from_table, (np.repeat(np.arange(n), degree), graph.table.reshape(-1)), 1)
    assert np.array_equal(from_table, linked + linked.T)
    assert np.all(from_table.sum(axis=1) == degree)


@given(st.integers(1, 20), st.integers(1, 8), st.data())
def test_groups_are_the_connected_components(n: int, wanted: int, data: st.DataObject) -> None:
    from scipy.sparse.csgraph import connected_components

    graph = MaskGraph(np.random.default_rng(n).permutation(n), even(wanted, n))
    present = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    linked = np.zeros((n, n), dtype=np.int64)
    np.put_along_axis(linked, graph.table, 1, axis=1)
    expected = connected_components(linked[present][:, present], directed=False)[0] if present.any() else 0
    assert graph.groups(present) == expected


def test_the_circle_is_drawn_anew_every_round() -> None:
    clients = np.arange(500)
    orders = [order_of(clients, round_, 4) for round_ in range(2)]
    assert all(np.array_equal(np.sort(order), clients) for order in orders)
    fixed = int((orders[0] == orders[1]).sum())
    assert fixed < 8  # about Poisson(1): P[>= 8] is 10^-5
    assert abs(np.corrcoef(orders[0], clients)[0, 1]) < 4 / np.sqrt(500)


def test_numbers_of_neighbours_and_shares() -> None:
    usual = {1: 0, 2: 1, 10: 9, 100: 24, 1000: 30, 10_000: 38}
    assert {n: even(0, n) for n in usual} == usual
    expected: list[tuple[int | Literal["all"], float, int, tuple[int, int, int]]] = [
        ("all", 0.5, 100, (99, 50, 51)),
        ("all", 40, 100, (99, 39, 40)),
        (20, 0.5, 101, (20, 10, 51)),
        (19, 0.8, 101, (20, 16, 81)),
        (0, 0.01, 1000, (30, 1, 11)),
        (0, 500, 100, (24, 24, 500)),
    ]
    for neighbours, threshold, n, numbers in expected:
        plan = SecureSum(encoding=ENCODING, neighbours=neighbours, threshold=threshold).plan(n)
        assert (plan.neighbours, plan.shares_needed, plan.at_least) == numbers


# --- costs and refusals ---------------------------------------------------------------------------


def test_bytes_by_hand() -> None:
    """Two keys of 32; per neighbour 8 (ids) + 66 (shares) + 28 (seal); 4 + ceil(2 x 40 / 8); 37 a share."""
    outcome = run(9, before=(0,), after=(1,))
    assert outcome.parameters.neighbours == 8
    sent = [64, 8 * 102, 4 + 10, 7 * 37]
    assert outcome.sent[2:].tolist() == [sent] * 7
    assert outcome.sent[0].tolist() == [64, 0, 0, 0]
    assert outcome.sent[1].tolist() == [64, 8 * 102, 0, 0]


def test_time_of_a_client_is_measured_by_stage() -> None:
    for agreement in ("none", "x25519"):
        spent = client_seconds(6, 3, 10, agreement)
        assert set(spent) == {"keys", "shares", "masked"}
        assert all(value > 0 for value in spent.values())


def test_refusals() -> None:
    for options in ({"neighbours": -1}, {"threshold": 0}, {"threshold": 1}, {"threshold": 2.5}):
        with pytest.raises(UsageError, match=next(iter(options))):
            SecureSum(encoding=ENCODING, **options)
    with pytest.raises(UsageError, match="threshold nan"):
        SecureSum(encoding=ENCODING, threshold=float("nan"))
    values, ones = np.array([[1.0], [9.0]]), np.ones(2, dtype=np.int64)
    with pytest.raises(UsageError, match="client 9, coordinate 0"):
        SecureSum(encoding=ENCODING).run(values, ones, streams(np.array([4, 9])))


def test_a_client_that_drops_out_encodes_nothing() -> None:
    values = np.array([[1.0], [1.0], [np.nan], [1.0]])
    secure, ones = SecureSum(encoding=ENCODING), np.ones(4, dtype=np.int64)
    outcome = secure.run(values, ones, streams(np.arange(4)), after=where(4, 2))
    assert outcome.sum == [3.0]
