"""PDGD against golden gradients, exact Plackett-Luce probabilities and its Laplacian form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foltr_audit.core.pdgd import PDGDSetting, setting_text
from foltr_audit.core.rankers import Ranker
from foltr_audit.kernels.jit import read_only
from foltr_audit.kernels.pdgd import pair_weights, pdgd_coefficients
from foltr_audit.simulation.learners.fpdgd import FPDGD
from tests.fixtures.reference import (
    dataset,
    exact_pair_weights,
    golden,
    numba_threads,
    observed_length,
    observed_pairs,
    pairwise_gradient,
)
from tests.fixtures.tiny import score_order

SETTINGS = [PDGDSetting(p, n) for p in ("all", "last-click+1") for n in ("shown", "candidates")]
EVERY_SETTING = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting_text(*setting))
CASES = 28
EVERY_CASE = pytest.mark.parametrize("case", range(CASES))
PAIRS_IN_FILE = {"all": "all", "last-click+1": "observed"}


@dataclass(frozen=True)
class Shown:
    """One list: scores of all candidates, the shown ones, their clicks and Jacobian rows."""

    scores: NDArray[np.float64]
    shown: NDArray[np.int64]
    clicks: NDArray[np.bool_]
    J: NDArray[np.float64]

    def coefficients(self, setting: PDGDSetting) -> tuple[NDArray[np.float64], int]:
        starts = np.array([0, self.scores.size])
        rows, pairs = pdgd_coefficients(
            self.scores,
            starts,
            self.shown[np.newaxis],
            read_only(self.clicks[np.newaxis]),
            setting.normaliser == "candidates",
            setting.pairs == "last-click+1",
        )
        return rows[0], int(pairs[0])

    def gradient(self, setting: PDGDSetting) -> NDArray[np.float64]:
        return np.asarray(self.J.T @ self.coefficients(setting)[0])

    def weights(self, normaliser: str) -> NDArray[np.float64]:
        starts = np.array([0, self.scores.size])
        over_all = normaliser == "candidates"
        return np.asarray(pair_weights(self.scores, starts, self.shown[np.newaxis], over_all)[0])

    @property
    def tolerance(self) -> float:
        return 1e-12 * self.shown.size * float(np.abs(self.J).max())


def drawn(seed: int, candidates: int, k: int, spread: float = 2.0, clicks: list[bool] | None = None) -> Shown:
    rng = np.random.default_rng(seed)
    given_clicks = rng.random(k) < 0.4 if clicks is None else np.array(clicks)
    return Shown(
        scores=rng.uniform(0, spread, size=candidates),
        shown=rng.permutation(candidates)[:k],
        clicks=given_clicks,
        J=rng.normal(size=(k, 6)),
    )


def golden_case(case: int) -> tuple[Shown, dict[str, NDArray[Any]]]:
    vectors = golden("pdgd-gradients.npz")
    assert int(vectors["n_cases"]) == CASES
    here = {key[:-3]: value for key, value in vectors.items() if key.endswith(f"_{case:02d}")}
    features, ranking = here["features"], here["ranking"]
    shown = Shown(scores=features @ here["theta"], shown=ranking, clicks=here["clicks"], J=features[ranking])
    return shown, here


@EVERY_CASE
@EVERY_SETTING
def test_golden_gradients(setting: PDGDSetting, case: int) -> None:
    shown, here = golden_case(case)
    expected = here[f"gradient_{PAIRS_IN_FILE[setting.pairs]}_{setting.normaliser}"]
    np.testing.assert_allclose(shown.gradient(setting), expected, rtol=0, atol=shown.tolerance)


@pytest.mark.parametrize("normaliser", ["shown", "candidates"])
@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0, 30.0, 100.0, 800.0, 3000.0])
def test_weights_against_high_precision(spread: float, normaliser: str) -> None:
    compared = 0
    for seed in range(4):
        one = drawn(seed, candidates=9, k=(2, 5, 7, 9)[seed], spread=spread)
        W = one.weights(normaliser)
        exact = exact_pair_weights(one.scores, one.shown.tolist(), normaliser == "candidates")
        np.testing.assert_allclose(W, exact, rtol=0, atol=1e-13)
        normal = exact > 1e-290  # below, float64 has fewer digits or none
        np.testing.assert_allclose(W[normal], exact[normal], rtol=1e-11)
        compared += int(normal.sum())
    assert compared > 0


@pytest.mark.parametrize("spread", [30.0, 3000.0])
def test_close_scores_at_the_end_of_a_wide_list(spread: float) -> None:
    """Where one common maximum underflows, and subtracting denominators cancels."""
    scores = np.array([spread, spread - 1.0, 0.3, 0.1, 0.0, spread / 2, -0.2])
    one = Shown(scores, np.array([0, 5, 2, 4, 3]), np.zeros(5, dtype=np.bool_), np.zeros((5, 1)))
    for normaliser in ("shown", "candidates"):
        exact = exact_pair_weights(scores, one.shown.tolist(), normaliser == "candidates")
        assert exact[2:, 2:].max() > 0.05
        np.testing.assert_allclose(one.weights(normaliser)[2:, 2:], exact[2:, 2:], rtol=1e-12)


@EVERY_SETTING
@pytest.mark.parametrize("apart", [0.0, 30.0, 50.0, 57.0, 58.0, 65.0, 68.5, 70.0, 100.0])
def test_lists_far_below_a_document_that_is_not_shown(setting: PDGDSetting, apart: float) -> None:
    """Where products of the weights that the list was drawn with would begin to underflow."""
    rng = np.random.default_rng(3)
    scores = np.concatenate([[0.0], -apart - rng.uniform(0, 0.5, size=10)])
    one = Shown(scores, np.arange(1, 11), np.arange(10) == 9, rng.normal(size=(10, 4)))
    exact = exact_pair_weights(scores, one.shown.tolist(), setting.normaliser == "candidates")
    only_observed = setting.pairs == "last-click+1"
    expected = np.zeros(10)
    for winner, loser in observed_pairs(one.clicks.tolist(), only_observed):
        expected[winner] += exact[winner, loser]
        expected[loser] -= exact[winner, loser]
    np.testing.assert_allclose(one.coefficients(setting)[0], expected, rtol=1e-11)


@EVERY_SETTING
@pytest.mark.parametrize("seed", range(6))
def test_gradient_is_the_sum_over_pairs(setting: PDGDSetting, seed: int) -> None:
    one = drawn(seed, candidates=8, k=6, spread=3.0)
    exact = exact_pair_weights(one.scores, one.shown.tolist(), setting.normaliser == "candidates")
    only_observed = setting.pairs == "last-click+1"
    expected = pairwise_gradient(exact, one.J, one.clicks.tolist(), only_observed)
    np.testing.assert_allclose(one.gradient(setting), expected, rtol=0, atol=one.tolerance)
    assert one.coefficients(setting)[1] == len(observed_pairs(one.clicks.tolist(), only_observed))


@settings(max_examples=60, derandomize=True)
@given(st.data())
def test_huge_scores_stay_finite(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 8))
    size = data.draw(st.sampled_from([1.0, 700.0, 1e4, 1e300]))
    scores = data.draw(st.lists(st.floats(-size, size), min_size=n, max_size=n))
    k = data.draw(st.integers(1, n))
    shown = data.draw(st.permutations(range(n)))[:k]
    clicks = data.draw(st.lists(st.booleans(), min_size=k, max_size=k))
    one = Shown(np.array(scores), np.array(shown), np.array(clicks), np.zeros((k, 1)))
    for setting in SETTINGS:
        W = one.weights(setting.normaliser)
        assert np.all((W >= 0) & (W <= 0.25))  # u/(1+u)^2 is at most 1/4, rho at most 1
        np.testing.assert_array_equal(W, W.T)
        assert not np.diag(W).any()
        coefficients, _ = one.coefficients(setting)
        assert np.all(np.isfinite(coefficients))
        assert np.all(coefficients[one.clicks] >= 0)
        assert np.all(coefficients[~one.clicks] <= 0)
        assert abs(coefficients.sum()) < 1e-14 * k


@EVERY_SETTING
def test_the_learner_takes_one_step_along_the_gradient(setting: PDGDSetting) -> None:
    rng = np.random.default_rng(8)
    lengths = [12, 4, 1]
    data = dataset(rng.normal(size=(17, 6)), np.zeros(17), lengths)
    queries, theta = np.array([1, 0, 2, 0]), rng.normal(size=(4, 6))
    ranker = Ranker(6)
    scores, starts = ranker.scores(theta, data, queries)
    shown = score_order(scores, starts, 10)
    clicks = (rng.random(shown.shape) < 0.4) & (shown >= 0)
    clicks[3] = shown[3] >= 0  # nothing to learn from
    learner = FPDGD(interactions=1, learning_rate=0.3, pairs=setting.pairs, normaliser=setting.normaliser)
    after, moved = learner.local_step(theta, data, queries, scores, starts, shown, clicks, ranker)
    assert learner.setting == setting
    for c, query in enumerate(queries):
        X = data.features[data.offsets[query] : data.offsets[query + 1]].astype(np.float64)
        listed = shown[c][shown[c] >= 0]
        W = exact_pair_weights(X @ theta[c], listed.tolist(), setting.normaliser == "candidates")
        clicked = clicks[c, : listed.size].tolist()
        only_observed = setting.pairs == "last-click+1"
        gradient = pairwise_gradient(W, X[listed], clicked, only_observed)
        np.testing.assert_allclose(after[c], theta[c] + 0.3 * gradient, rtol=0, atol=1e-11)
        assert moved[c] == bool(observed_pairs(clicked, only_observed))
    assert moved.any()
    assert not moved[3]
    np.testing.assert_array_equal(after[~moved], theta[~moved])


@EVERY_SETTING
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_a_list_has_the_same_bytes_beside_other_clicks_on_it(setting: PDGDSetting, spread: float) -> None:
    """Its weights are computed once for all rows in sequence that show it; 300 is too far apart for that."""
    rng = np.random.default_rng(4)
    lists = [
        (spread * rng.standard_normal(n), rng.permutation(n)[:k]) for n, k in ((13, 10), (4, 4), (13, 10))
    ]
    which = [0, 0, 0, 1, 1, 0, 2, 2, 1, 0, 0]
    shown = np.full((len(which), 10), -1)
    for row, one in enumerate(which):
        shown[row, : lists[one][1].size] = lists[one][1]
    clicks = read_only((rng.random(shown.shape) < 0.4) & (shown >= 0))
    rules = setting.normaliser == "candidates", setting.pairs == "last-click+1"
    starts = np.cumsum([0, *(lists[one][0].size for one in which)])
    together = pdgd_coefficients(
        np.concatenate([lists[one][0] for one in which]), starts, shown, clicks, *rules
    )
    for row, one in enumerate(which):
        ends, at = np.array([0, lists[one][0].size]), slice(row, row + 1)
        alone = pdgd_coefficients(lists[one][0], ends, shown[at], clicks[at], *rules)
        assert all(a.tobytes() == b[at].tobytes() for a, b in zip(alone, together, strict=True))


def test_any_number_of_threads_gives_the_same_bytes() -> None:
    rng = np.random.default_rng(9)
    lengths = rng.integers(1, 40, size=400)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    scores = rng.normal(size=starts[-1]) * 5
    shown = score_order(scores, starts, 10)
    clicks = (rng.random(shown.shape) < 0.4) & (shown >= 0)

    def all_bytes(threads: int) -> list[bytes]:
        with numba_threads(threads):
            arrays: list[NDArray[Any]] = [pair_weights(scores, starts, shown, True)]
            for setting in SETTINGS:
                flags = setting.normaliser == "candidates", setting.pairs == "last-click+1"
                arrays += pdgd_coefficients(scores, starts, shown, read_only(clicks), *flags)
            return [array.tobytes() for array in arrays]

    assert all_bytes(2) == all_bytes(1)


# --- lists with far-apart weights -------------------------------------------------------------------------


def general(list_: Shown, normaliser: str) -> NDArray[np.float64]:
    """The coefficients (k,) of one list from the weights of all of its pairs."""
    weights, clicks, out = list_.weights(normaliser), list_.clicks, np.zeros(list_.shown.size)
    observed = min(observed_length(clicks, out.size, "last-click+1"), int((list_.shown >= 0).sum()))
    for p in range(observed):
        for q in range(p + 1, observed):
            if clicks[p] != clicks[q]:
                out[p] += weights[p, q] if clicks[p] else -weights[p, q]
                out[q] += weights[p, q] if clicks[q] else -weights[p, q]
    return out


@pytest.mark.parametrize("setting", SETTINGS[2:], ids=lambda setting: setting_text(*setting))
@pytest.mark.parametrize("spread", [150.0, 400.0, 590.0, 720.0, 1500.0])
def test_far_lists_have_the_coefficients_of_their_pair_weights(spread: float, setting: PDGDSetting) -> None:
    rng = np.random.default_rng(int(spread))
    K, seen = 10, 0
    for documents in (2, 9, 10, 11, 17, 60):
        for _ in range(20):
            # Both ends are shown, so that every list is far from the close ones, which have other sums.
            scores = rng.uniform(0, spread, documents)
            scores[:2] = 0.0, spread
            top = np.concatenate([[0, 1], 2 + rng.permutation(documents - 2)])[: min(K, documents)]
            shown = np.full(K, -1)
            shown[: top.size] = rng.permutation(top)
            clicks = (rng.random(K) < 0.3) & (shown >= 0)
            one = Shown(scores, shown, clicks, np.zeros((K, 1)))
            found, pairs = one.coefficients(setting)
            np.testing.assert_array_equal(found, general(one, setting.normaliser))
            assert np.isfinite(found).all()
            seen += int(pairs > 0)
    assert seen > 40
