"""OLSR: its least squares against NumPy's, and that it reads clicks out of un-noised updates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from foltr_audit.attacks.olsr import OLSR, OLSRTheta
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foltr_audit.core.pdgd import Normaliser, Pairs
from foltr_audit.core.plugins import Inference, View
from foltr_audit.core.rankers import Ranker
from foltr_audit.core.records import Dataset
from foltr_audit.inference.linear_systems import (
    least_squares,
    name_by_weight,
    roundings,
)
from foltr_audit.kernels.messages import projected
from foltr_audit.simulation.learners.fpdgd import FPDGD
from foltr_audit.testing import samples
from foltr_audit.utils.arrays import Bools, Floats, Ints
from tests.fixtures.reference import dataset
from tests.fixtures.tiny import score_order

EVERY_SETTING = pytest.mark.parametrize(
    ("pairs", "normaliser"),
    [(p, n) for p in ("all", "last-click+1") for n in ("shown", "candidates")],
)
P, K = 46, 10


def solved(columns: Floats, values: Floats) -> Floats:
    """The shortest least-squares solutions."""
    return least_squares(columns, values, np.zeros(values.shape)).weights


def infer(view: View, attack: OLSR | None = None) -> Inference:
    return (attack or OLSR()).infer(view, np.random.default_rng(0))


def stepped(
    seed: int,
    clients: int,
    pairs: Pairs = "all",
    normaliser: Normaliser = "shown",
    kind: str = "model",
) -> tuple[View, Bools]:
    """A view of one un-noised step per client, made by the real learner, and the clicks behind it."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 30, size=clients)
    rows = int(lengths.sum())
    data = dataset(rng.normal(size=(rows, P)), np.zeros(rows), lengths.tolist())
    queries, theta = np.arange(clients), rng.normal(size=P) / 10
    ranker = Ranker(P)
    scores, starts = ranker.scores(theta[np.newaxis], data, queries)
    shown = score_order(scores, starts, K)
    clicks = (rng.random(shown.shape) < 0.4) & (shown >= 0)
    learner = FPDGD(interactions=1, pairs=pairs, normaliser=normaliser)
    start = np.tile(theta, (clients, 1))
    after, _ = learner.local_step(start, data, queries, scores, starts, shown, clicks, ranker)
    view = View(
        observer="individual",
        kind=kind,
        parameters=start,
        messages=after if kind == "model" else after - start,
        shown=shown[:, np.newaxis],
        features=shown_features(data, queries, shown)[:, np.newaxis],
    )
    return view, clicks


def shown_features(data: Dataset, queries: Ints, shown: Ints) -> NDArray[np.float32]:
    rows = data.offsets[queries][:, np.newaxis] + np.maximum(shown, 0)
    return np.where((shown >= 0)[..., np.newaxis], data.features[rows], np.float32(0))


@settings(max_examples=60, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 8),
    m=st.integers(1, 8),
    twins=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=3),
    empty=st.lists(st.integers(0, 7), max_size=3),
)
def test_least_squares_equals_numpy(
    seed: int, rows: int, m: int, twins: list[tuple[int, int]], empty: list[int]
) -> None:
    """Also with twin documents, zero columns and more columns than rows.

    Small whole numbers: a system is either singular or far from it.
    """
    rng = np.random.default_rng(seed)
    columns = rng.integers(-2, 3, size=(3, rows, m)).astype(np.float64)
    values = rng.integers(-5, 6, size=(3, rows)).astype(np.float64)
    for one, other in twins:
        columns[..., one % m] = columns[..., other % m]
    columns[..., [column % m for column in empty]] = 0.0
    for A, y, x in zip(columns, values, solved(columns, values), strict=True):
        np.testing.assert_allclose(x, np.linalg.lstsq(A, y, rcond=None)[0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(A.T @ (A @ x - y), 0.0, atol=1e-9)


def test_systems_without_content() -> None:
    assert solved(np.zeros((2, 5, 3)), np.ones((2, 5))).tolist() == [[0.0] * 3] * 2
    assert solved(np.zeros((2, 5, 0)), np.ones((2, 5))).shape == (2, 0)
    assert solved(np.zeros((0, 5, 3)), np.ones((0, 5))).shape == (0, 3)
    assert not least_squares(np.zeros((2, 5, 3)), np.ones((2, 5)), np.ones((2, 5))).errors.any()


@pytest.mark.parametrize("m", [3, 7])
def test_errors_are_those_of_equations_that_are_all_off_by_as_much(m: int) -> None:
    """The largest rounding counts for every equation; also where there are more columns than equations."""
    rng = np.random.default_rng(1)
    columns, values, sizes = rng.normal(size=(2, 5, m)), rng.normal(size=(2, 5)), rng.random((2, 5))
    fit = least_squares(columns, values, sizes)
    for A, error, size in zip(columns, fit.errors, sizes, strict=True):
        covariance = np.linalg.pinv(A) @ np.linalg.pinv(A).T
        np.testing.assert_allclose(error, size.max() * np.sqrt(np.diag(covariance)), rtol=1e-10)
    off = columns[0] @ fit.weights[0] + sizes[0].max() * rng.normal(size=(20_000, 5))
    many = solved(np.broadcast_to(columns[0], (20_000, 5, m)), off)
    np.testing.assert_allclose(many.std(axis=0), fit.errors[0], rtol=0.03)


def test_a_message_is_known_to_its_last_digit() -> None:
    view, _ = stepped(11, 30)
    for name, dtype in (("float32", np.float32), ("float64", np.float64)):
        known = replace(view, knowledge=view.knowledge.having(number_format=name))
        rounded = view.messages.astype(dtype).astype(np.float64)
        assert np.all(np.abs(rounded - view.messages) <= roundings(known))
        larger = np.maximum(np.abs(view.messages), np.abs(view.parameters))
        assert np.all(roundings(known) <= 16 * np.spacing(larger.astype(dtype))), "and not much less"


def test_what_rounding_could_have_made_names_nothing() -> None:
    view, _ = stepped(12, 2)
    weights, errors = np.zeros((2, K)), np.ones((2, K))
    weights[0, :4] = [4.1, 3.9, -9.0, 400.0]
    fit = least_squares(view.columns, view.updates, roundings(view))._replace(weights=weights, errors=errors)
    there = replace(view, shown=np.tile(np.arange(K), (2, 1, 1)))
    named = [name_by_weight(there, fit, tolerance).guess for tolerance in (None, 0.0, 0.01)]
    for guess, expected in zip(named, ([0, 3], [0, 1, 3], [0, 3]), strict=True):
        assert np.flatnonzero(guess[0, 0]).tolist() == expected
        assert not guess[1].any()


@EVERY_SETTING
@pytest.mark.parametrize("kind", ["model", "update"])
def test_reads_every_click_of_an_identifiable_list(pairs: Pairs, normaliser: Normaliser, kind: str) -> None:
    """Fewer shown documents than features: all is read, but for lists where all or nothing is clicked."""
    view, clicks = stepped(1, 200, pairs, normaliser, kind)
    here = view.is_document[:, 0]
    answer = infer(view)
    identifiable = clicks.any(axis=1) & (clicks != here).any(axis=1)
    assert identifiable.sum() > 150
    np.testing.assert_array_equal(answer.guess[identifiable, 0], clicks[identifiable])
    told = identifiable[:, np.newaxis] & here
    lowest = np.where(clicks & told, answer.scores[:, 0], np.inf).min(axis=1)
    highest = np.where(~clicks & told, answer.scores[:, 0], -np.inf).max(axis=1)
    assert np.all(lowest[identifiable] > highest[identifiable])
    assert (~identifiable).sum() > 3  # all clicked and none clicked send the same message: nothing
    assert not answer.guess[~identifiable].any()


def test_the_weights_are_the_learners_coefficients() -> None:
    """Rebuilding the update from the answer's scores gives the message."""
    view, _ = stepped(2, 40)
    answer = infer(view)
    rebuilt = np.einsum("nbk,nbkd->nd", answer.scores, view.features.astype(np.float64))
    np.testing.assert_allclose(rebuilt, view.updates, rtol=0, atol=1e-14)
    np.testing.assert_allclose(
        answer.scores.sum(axis=(1, 2)), 0.0, atol=1e-14
    )  # every pair: one up, one down


def test_the_global_model_takes_up_what_a_clip_adds() -> None:
    """A clipped model is a multiple of the one before; the multiple is the last column's weight."""
    view, clicks = stepped(13, 200)
    clipped = replace(view, messages=projected(view.messages, 0.5, 2))
    factor = 0.5 / np.linalg.norm(view.messages, axis=1)
    assert np.all(factor < 0.9)
    weights = OLSRTheta()._fit(clipped).weights
    np.testing.assert_allclose(
        weights,
        factor[:, np.newaxis] * infer(view).scores[:, 0],
        rtol=0,
        atol=1e-11,
        err_msg="shrunk as well",
    )
    told = clicks.any(axis=1) & (clicks != view.is_document[:, 0]).any(axis=1)
    assert np.array_equal(infer(clipped, OLSRTheta()).guess[told, 0], clicks[told])
    assert not np.array_equal(infer(clipped).guess[told, 0], clicks[told])
    assert np.array_equal(infer(view, OLSRTheta()).guess, infer(view).guess), (
        "it costs nothing without a clip"
    )


def test_a_ranker_that_is_not_known_is_refused() -> None:
    seen = samples.view(2)
    assert OLSR().why_not(seen) is None
    other = replace(seen, knowledge=replace(seen.knowledge, ranker="mine"))
    assert OLSR().why_not(other) == "ranker 'mine' is unknown, so scores cannot be computed from a model"
