"""Counts from sums: moments, bounds and laws by other routes; what is told without noise, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from foltr_audit.attacks.aggregate_counts import AggregateCounts
from scipy.special import kv
from scipy.stats import multivariate_normal, norm

from foltr_audit.core.plugins import Ball, Knowledge, View
from foltr_audit.core.records.view import ClickBelief
from foltr_audit.inference.count_decoder import (
    CountDecoder,
    law_of_sum,
    noise_tables,
    steepness,
)
from foltr_audit.inference.pattern_decoder import noise_law, patterns_as_clicks
from foltr_audit.inference.replay import Replay
from foltr_audit.judge.task import checked_answer
from foltr_audit.kernels.cascade import cascade_clicks
from foltr_audit.kernels.click_sums import (
    UpdateSums,
    explained,
    fill_any_rate_moments,
    fill_cascade_moments,
)
from foltr_audit.privacy.noise import FLOOR, GammaShare, Gaussian, NoiseLaw, RoundingNoise, ScaleFreeNoise
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats, Ints
from tests.fixtures.tiny import BELIEF
from tests.inference.test_pattern_decoder import BALLS, RATE, SETTINGS, gradients, known, lists, walk_down

PERFECT = ClickBelief(click=np.array([0.0, 0.5, 1.0]), stop=np.zeros(3), grades=BELIEF.grades)
SHARE = GammaShare(n=1000, scale=2.5)


class Summed(NamedTuple):
    """Sums over clients who saw a list each, the clicks behind them, and their grades."""

    view: View
    counts: Ints


def summed(
    n: int,
    clients: int,
    law: NoiseLaw | None,
    *,
    pairs: str = "all",
    belief: ClickBelief = BELIEF,
    ball: Ball | None = None,
    k: int = 6,
    features: int = 12,
    seed: int = 0,
) -> Summed:
    """Lists whose clients follow the server's belief; each sends one share of noise."""
    rng = np.random.default_rng(seed)
    knowledge = known(pairs, "shown", ball, law or SHARE).having(belief=belief)
    if law is None:
        knowledge = replace(knowledge, noise="none")
    seen = lists([k] * n, knowledge, seed=seed, k=k, features=features)
    grades = np.stack([rng.choice(3, size=n, p=belief.grades[j]) for j in range(k)], axis=1)
    own = np.repeat(np.arange(n), clients)
    clicks = cascade_clicks(grades[own], rng.random((own.size, 2 * k)), belief.click, belief.stop)
    updates = Replay(seen).step(seen.parameters[own], own, 0, clicks) - seen.parameters[own]
    if isinstance(law, GammaShare):
        updates += law.sample(Streams(seed).clients("noise", 0, np.arange(own.size)), features)
    view = replace(
        seen,
        observer="aggregate",
        kind="update",
        messages=updates.reshape(n, clients, -1).sum(axis=1),
        clients=np.full(n, clients),
        labels=grades[:, np.newaxis],
    )
    return Summed(view, clicks.reshape(n, clients, k).sum(axis=1))


def estimated(seen: View, **parameters: Any) -> Floats:
    """The attack's counts, (n, k)."""
    attack = AggregateCounts.model_validate(parameters)
    assert attack.why_not(seen) is None
    return checked_answer(attack, seen, np.random.default_rng(0)).scores[:, 0]


# --- one client -----------------------------------------------------------------------------------


@pytest.mark.parametrize("always", [True, False])
@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_terms_make_every_update(pairs: str, normaliser: str, ball: str, always: bool) -> None:
    """Columns times terms are what a client sends for each pattern, pair by pair and clipped."""
    lengths = [0, 1, 2, 5, 8]
    seen = lists(lengths, known(pairs, normaliser, BALLS[ball], SHARE, always=always), k=8)
    sums = CountDecoder(seen).sums(np.arange(5))
    made = np.einsum("npq,nmq->nmp", sums.design, sums.terms[:, :, :9])
    for i, length in enumerate(lengths):
        step, moved = gradients(seen, i)
        models = seen.parameters[i] + RATE * step
        edge = BALLS[ball]
        if edge is not None:
            size = np.linalg.norm(models, edge.ord, axis=1)
            acts = moved | (always and length > 0)
            models *= np.where(acts & (size > edge.norm), edge.norm / size, 1.0)[:, np.newaxis]
        np.testing.assert_allclose(made[i, : 2**length], models - seen.parameters[i], atol=1e-12)
        assert np.array_equal(sums.terms[i, : 2**length, 9:], patterns_as_clicks(np.arange(2**length), 8))


# --- moments --------------------------------------------------------------------------------------


def some_sums(k: int = 4, clients: int = 7) -> UpdateSums:
    """Sums over clients of lists of 1 to k documents."""
    seen = lists(list(range(1, k + 1)), known("last-click+1", "shown", Ball(norm=1.0), SHARE), k=k)
    seen = replace(seen, kind="update", messages=seen.updates, clients=np.full(k, clients))
    return CountDecoder(seen).sums(np.arange(k))


def lower(spread: Floats) -> Floats:
    """The part of a covariance that kernels fill in."""
    return np.tril(spread)


def test_cascade_moments_sum_over_all_patterns() -> None:
    sums, rng = some_sums(), np.random.default_rng(1)
    q, w = sums.design.shape[2], sums.terms.shape[2]
    for i, length in enumerate(sums.lengths.tolist()):
        click, stop = rng.random((2, 4))
        mean, spread = np.empty(w), np.empty((w, q))
        fill_cascade_moments(sums, i, click, stop, mean, spread)
        chances, terms = walk_down(click, stop, length), sums.terms[i, : 2**length]
        covariance = np.cov(terms.T, aweights=chances, ddof=0) * 7
        np.testing.assert_allclose(mean, 7 * chances @ terms, atol=1e-12)
        np.testing.assert_allclose(spread, lower(covariance[:, :q]), atol=1e-12)


def test_any_rate_moments_follow_from_pairs_of_clients() -> None:
    """Two clients of one rate, uniform: both click with chance 1/3, neither with 1/3."""
    sums = some_sums()
    q, w = sums.design.shape[2], sums.terms.shape[2]
    for i, length in enumerate(sums.lengths.tolist()):
        mean, spread = np.empty(w), np.empty((w, q))
        fill_any_rate_moments(sums, i, mean, spread)
        bits = patterns_as_clicks(np.arange(2**length), length)
        both = np.array([[np.prod(np.where(a == b, 1 / 3, 1 / 6)) for b in bits] for a in bits])
        terms = sums.terms[i, : 2**length]
        single = both.sum(axis=1)
        average = single @ terms
        second = 7 * terms.T @ (single[:, np.newaxis] * terms) + 7 * 6 * terms.T @ both @ terms
        np.testing.assert_allclose(mean, 7 * average, atol=1e-12)
        np.testing.assert_allclose(
            spread, lower((second - 49 * np.outer(average, average))[:, :q]), atol=1e-12
        )


# --- evidence -------------------------------------------------------------------------------------


def test_normal_noise_makes_the_bound_exact() -> None:
    """The log density of the sum and the conditional mean of counts, of a joint normal law."""
    law, m = Gaussian(sigma=0.4), 7
    sums, k = some_sums(clients=m), 4
    q, w, P = sums.design.shape[2], sums.terms.shape[2], sums.received.shape[1]
    click, stop = np.array([0.5, 0.4, 0.7, 0.2]), np.array([0.1, 0.5, 0.0, 0.3])
    for i, length in enumerate(sums.lengths.tolist()):
        mean, spread, counts = np.empty(w), np.empty((w, q)), np.zeros(k)
        fill_cascade_moments(sums, i, click, stop, mean, spread)
        found = explained(sums, i, noise_tables(law), mean, spread, -np.inf, counts)
        chances, terms = walk_down(click, stop, length), sums.terms[i, : 2**length]
        both = np.cov(terms.T, aweights=chances, ddof=0) * m
        design = sums.design[i]
        of_sum = design @ both[:q, :q] @ design.T + law.variance * np.eye(P)
        centre = m * chances @ terms
        expected = multivariate_normal(design @ centre[:q], of_sum).logpdf(sums.received[i])
        assert found == pytest.approx(expected, abs=1e-3)
        gain = both[q:, :q] @ design.T @ np.linalg.inv(of_sum)
        moved = centre[q:] + gain @ (sums.received[i] - design @ centre[:q])
        np.testing.assert_allclose(counts[:length], np.clip(moved, 0, m)[:length], atol=1e-3)


@pytest.mark.parametrize("received", [-3.0, 0.2, 1.0, 6.0])
@pytest.mark.parametrize(("count", "gap"), [(1, 2.5), (20, 1.0), (100, 0.2), (300, 0.05)])
def test_the_bound_lies_below_the_evidence_and_near(count: int, gap: float, received: float) -> None:
    """One number: the integral over all that the clients may have sent."""
    law = GammaShare(n=100, scale=1.0, count=count)
    terms = np.array([[[0.0, 0.0], [0.5, 1.0]]])
    sums = UpdateSums(
        received=np.array([[received]]),
        design=np.ones((1, 1, 1)),
        terms=terms,
        lengths=np.array([1]),
        clients=np.array([10]),
        finest=np.array([FLOOR]),
    )
    mean, spread, counts = np.empty(2), np.empty((2, 1)), np.zeros(1)
    fill_cascade_moments(sums, 0, np.array([0.3]), np.array([0.0]), mean, spread)
    sent = norm(mean[0], spread[0, 0] ** 0.5)
    t = np.linspace(np.log(FLOOR), 5.0, 200_001)  # noise of either sign, on a logarithmic scale
    sizes = np.exp(t)
    density = np.exp(law.log_density(sizes)) * sizes
    evidence = np.trapezoid(density * (sent.pdf(received - sizes) + sent.pdf(received + sizes)), t)
    evidence += 2 * FLOOR * np.exp(law.log_density(FLOOR)) * sent.pdf(received)
    found = explained(sums, 0, noise_tables(law), mean, spread, -np.inf, counts)
    assert np.log(evidence) - gap < found < np.log(evidence) + 1e-3


# --- laws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 3, 200])
def test_laws_of_sums(m: int) -> None:
    for text in ("gamma-share:n=1000,scale=2.5,count=2", "gaussian:sigma=0.5", "laplace:scale=2"):
        one, many = (law_of_sum(Knowledge(noise=text), c) for c in (1, m))
        assert many.variance == pytest.approx(m * one.variance)
    assert law_of_sum(Knowledge(noise="none"), m).variance == pytest.approx(
        m * noise_law(Knowledge(noise="none")).variance
    )
    assert isinstance(law_of_sum(Knowledge(noise=None), m), ScaleFreeNoise)


@pytest.mark.parametrize(
    ("law", "exact"),
    [
        (Gaussian(sigma=0.3), lambda x: 1 / 0.3**2 + 0 * x),
        (GammaShare(n=1, scale=2.0), lambda x: 1 / (2.0 * x)),
        (RoundingNoise(resolution=1e-5), lambda x: 1 / (1e-5 * x)),
        (ScaleFreeNoise(resolution=1e-6), lambda x: 1 / (x * (x + 1e-6))),
        (GammaShare(n=10, scale=2.0), lambda x: kv(1.4, x / 2) / kv(0.4, x / 2) / (2 * x)),
        (GammaShare(n=10, scale=2.0, count=40), lambda x: kv(2.5, x / 2) / kv(3.5, x / 2) / (2 * x)),
    ],
)
def test_precisions_equal_their_closed_forms(law: NoiseLaw, exact: Callable[[Floats], Floats]) -> None:
    x = law.scale * np.geomspace(1e-3, 30, 200)
    np.testing.assert_allclose(steepness(law)(x) / x**2, exact(x), rtol=1e-5)
    wide = law.scale * np.geomspace(1e-8, 1e6, 1000)
    steep = steepness(law)(wide)
    assert np.all(steep > 0)
    assert np.all(np.diff(np.log(steep)) > -1e-5), "it never falls"
    assert np.all(np.diff(np.log(steep / wide**2)) < 1e-4), "and the precision never rises"


# --- what is told ---------------------------------------------------------------------------------


def test_counts_are_exact_without_noise() -> None:
    """Where perfect users saw a document that nobody or everybody clicks: the others follow from it."""
    made = summed(40, 30, None, belief=PERFECT)
    assert made.view.labels is not None
    told = np.isin(made.view.labels[:, 0], (0, 2)).any(axis=1)
    assert told.sum() > 35
    assert np.abs(estimated(made.view, prior="relevance") - made.counts)[told].max() < 0.01
    right = (np.rint(estimated(made.view)) == made.counts).all(axis=1)
    assert right.mean() > 0.9, "grades are found where they are not known"


# --- the search -----------------------------------------------------------------------------------


def test_the_search_finds_what_trying_everything_finds() -> None:
    made = summed(30, 40, GammaShare(n=1000, scale=2.5), k=3)
    every = np.array(list(product(range(3), repeat=3)))
    tried = CountDecoder(made.view).counts(every)
    np.testing.assert_allclose(estimated(made.view), tried, atol=0.1)
    near = np.abs(estimated(made.view, restarts=0) - tried).max(axis=1) < 0.1
    assert near.sum() >= 25, "most often three starts do"


# --- what does not matter -------------------------------------------------------------------------


def test_sums_of_clients_with_several_lists_are_refused() -> None:
    seen = summed(3, 5, SHARE).view
    several = replace(seen, shown=seen.shown.repeat(2, axis=1), features=seen.features.repeat(2, axis=1))
    assert "one list" in str(AggregateCounts().why_not(several))
