"""Malicious clients that reverse their clicks or their updates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, kstest, norm

from foltr_audit.core.plugins import ClickModel, Poisoning
from foltr_audit.core.plugins.registry import make
from foltr_audit.rng import Streams
from tests.fixtures.tiny import context, generator


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
