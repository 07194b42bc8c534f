"""What malicious clients click and send, against loops, searches and SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, kstest, norm

from foltr_audit.core.plugins import ClickModel, Poisoning
from foltr_audit.core.plugins.registry import make, names
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats
from tests.fixtures.tiny import context, generator

CRAFTED = ("lie", "min-max", "min-sum", "fang")
BY_CLICKS = ("reversed-clicks", "promotion")
"""Malicious clients click otherwise, and send what their local steps give."""


def poisoned(text: str, updates: Floats, malicious: Bools) -> Floats:
    """What the clients 0, 1, ... send."""
    clients = list(range(len(updates)))
    return make(Poisoning, text).on_updates(updates, malicious, context(clients))


def cohort(seed: int, honest: int = 7, malicious: int = 3, size: int = 6) -> tuple[Floats, Bools]:
    """Random updates, and who is malicious."""
    updates = generator(seed).normal(size=(honest + malicious, size)) + 0.3
    who = np.zeros(honest + malicious, dtype=np.bool_)
    who[generator(seed + 1).permutation(who.size)[:malicious]] = True
    return updates, who


@pytest.mark.parametrize("name", names(Poisoning))
def test_honest_clients_send_what_they_sent_and_nothing_is_changed_in_place(name: str) -> None:
    updates, who = cohort(1)
    before = updates.copy()
    sent = poisoned(f"{name}:share=0.3", updates, who)
    assert sent[~who].tobytes() == updates[~who].tobytes()
    assert updates.tobytes() == before.tobytes()
    assert (name in BY_CLICKS) == np.array_equal(sent, updates)


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_updates_do_not_depend_on_what_malicious_clients_computed(name: str) -> None:
    updates, who = cohort(2)
    other = np.where(who[:, np.newaxis], 99.0, updates)
    text = f"{name}:share=0.3"
    assert np.array_equal(poisoned(text, updates, who)[who], poisoned(text, other, who)[who])


@pytest.mark.parametrize("name", CRAFTED)
@pytest.mark.parametrize("honest", [0, 1])
def test_a_cohort_with_hardly_an_honest_client_stays_finite(name: str, honest: int) -> None:
    updates, who = cohort(3, honest=honest, malicious=2)
    assert np.isfinite(poisoned(f"{name}:share=0.3", updates, who)).all()


@pytest.mark.parametrize(("honest", "malicious"), [(7, 3), (16, 4), (9, 1), (6, 4), (2, 6), (26, 24)])
def test_a_little_is_enough(honest: int, malicious: int) -> None:
    updates, who = cohort(4, honest, malicious)
    n = honest + malicious
    unusual = min(max(math.floor(n / 2 + 1) - malicious, 1), honest - 1)
    z = norm.ppf((n - malicious - unusual) / (n - malicious))
    sent = poisoned("lie:share=0.3", updates, who)
    for j in range(updates.shape[1]):
        column = [updates[i, j] for i in range(n) if not who[i]]
        mean = sum(column) / honest
        deviation = math.sqrt(sum((x - mean) ** 2 for x in column) / honest)
        for i in np.flatnonzero(who):
            assert sent[i, j] == pytest.approx(mean - z * deviation, rel=1e-9, abs=1e-12)
            given_z = poisoned("lie:share=0.3,z=2.5", updates, who)[i, j]
            assert given_z == pytest.approx(mean - 2.5 * deviation, rel=1e-9, abs=1e-12)


def allowed(name: str, sent: Floats, honest: Floats) -> bool:
    """The condition of the paper, by loops over the honest updates."""
    between = [[float(((x - y) ** 2).sum()) for y in honest] for x in honest]
    from_sent = [float(((x - sent) ** 2).sum()) for x in honest]
    if name == "min-max":
        return max(from_sent) <= max(map(max, between))
    return sum(from_sent) <= max(map(sum, between))


@pytest.mark.parametrize("name", ["min-max", "min-sum"])
@given(seed=st.integers(0, 10_000), honest=st.integers(2, 9), size=st.integers(1, 8))
def test_gamma_is_the_largest_that_is_allowed(name: str, seed: int, honest: int, size: int) -> None:
    updates, who = cohort(seed, honest, 2, size)
    others = updates[~who]
    mean, deviation = others.mean(axis=0), others.std(axis=0, ddof=1)  # its length does not matter
    low, high = 0.0, 1.0
    assert allowed(name, mean, others)
    while allowed(name, mean - high * deviation, others):
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(name, mean - middle * deviation, others) else (low, middle)
    sent = poisoned(f"{name}:share=0.3", updates, who)[who]
    assert np.allclose(sent, mean - low * deviation, rtol=1e-6, atol=1e-6)


@given(seed=st.integers(0, 10_000))
def test_fang_pushes_each_coordinate_beyond_all_honest_ones(seed: int) -> None:
    updates, who = cohort(seed)
    sent = poisoned("fang:share=0.3", updates, who)
    for j in range(updates.shape[1]):
        honest = updates[~who, j]
        for x in sent[who, j]:
            if honest.mean() > 0:
                bound, inside = honest.min(), x < honest.min()
            else:
                bound, inside = honest.max(), x > honest.max()
            assert inside
            ratio = x / bound
            assert 1 < max(ratio, 1 / ratio) < 2


def test_factors_of_fang_are_uniform_between_1_and_2() -> None:
    """Kolmogorov-Smirnov at a false-alarm rate of 1e-6; a factor that is drawn once for all would fail."""
    updates = np.tile(generator(5).normal(size=4000) + 3.0, (4, 1))
    updates = np.abs(updates) + 0.1
    who = np.array([True, False, False, False])
    factor = updates[1] / poisoned("fang:share=0.3", updates, who)[0]
    assert kstest(factor - 1, "uniform").pvalue > 1e-6
    assert kstest(np.full(4000, factor[0] - 1), "uniform").pvalue < 1e-6


# --- reversals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("largest", "chances"),
    [(1, (1, 0)), (2, (1, 0.5, 0)), (4, (1, 0.8, 0.6, 0.2, 0)), (3, (1, 0.8, 0.6, 0.2))],
)
def test_clicks_fall_with_relevance_and_none_ends_the_list(largest: int, chances: tuple[float, ...]) -> None:
    """Binomial tests at a false-alarm rate of 1e-7 each, at the first and at the last of ten positions."""
    clicks = make(ClickModel, make(Poisoning, "reversed-clicks:share=0.3").click_model or "")
    clients = np.arange(4000)
    for label, chance in enumerate(chances):
        labels = np.full((clients.size, 10), label)
        streams = Streams(1).clients("clicks", label, clients)
        clicked = clicks.click(labels, largest, streams, 0)
        for position in (0, 9):
            count = int(clicked[:, position].sum())
            assert binomtest(count, clients.size, chance).pvalue > 1e-7
            assert binomtest(count, clients.size, abs(chance - 0.1)).pvalue < 1e-7


def test_clicks_are_those_of_perfect_users_of_reversed_grades() -> None:
    poisoning = make(Poisoning, "reversed-clicks:share=0.3")
    perfect = make(ClickModel, "perfect")
    clients = np.arange(500)
    labels = generator(1).integers(0, 3, size=(500, 10))
    streams = Streams(1).clients("clicks", 0, clients)
    mine = make(ClickModel, poisoning.click_model or "").click(labels, 2, streams, 0)
    assert np.array_equal(mine, perfect.click(2 - labels, 2, streams, 0))


def test_a_gradient_is_reversed_with_noise() -> None:
    """-2 gamma g + mu: gamma from the slope over many coordinates, mu by its law (false alarms 1e-6)."""
    P, clients = 20_000, [3, 8, 9, 11]
    updates = generator(2).normal(0.5, 2.0, size=(4, P))
    who = np.array([True, False, True, True])
    sent = make(Poisoning, "gradient-reversal:share=0.3").on_updates(updates, who, context(clients))
    gammas = []
    for g, poison in zip(updates[who], sent[who], strict=True):
        slope, _ = np.polyfit(g, poison, 1)
        gammas.append(slope / -2)
        mu = poison - slope * g
        # The slope is known to about 1 / sqrt(P), which the test of mu cannot see.
        assert kstest(mu, norm(g.mean(), g.std()).cdf).pvalue > 1e-6
        assert kstest(mu, norm(0.0, g.std()).cdf).pvalue < 1e-6
    assert all(0.98 < gamma < 2.02 for gamma in gammas)
    assert max(gammas) - min(gammas) > 0.02, "each client draws its own"


def test_what_a_client_sends_depends_on_no_other_client() -> None:
    updates = generator(3).normal(size=(4, 6))
    poisoning = make(Poisoning, "gradient-reversal:share=0.3")
    both = np.array([True, False, True, False])
    sent = poisoning.on_updates(updates, both, context([3, 8, 9, 11]))
    alone = poisoning.on_updates(updates[2:3], np.array([True]), context([9]))
    assert np.array_equal(sent[2], alone[0])
