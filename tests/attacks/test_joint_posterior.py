"""Joint decoding of several lists, and the usual fit that tells it when it has failed."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from foltr_audit.attacks.joint_posterior import JointMaximumPosterior
from foltr_audit.attacks.maximum_posterior import MaximumPosterior

from foltr_audit.core.plugins import Ball, Knowledge, View
from foltr_audit.inference.pattern_decoder import (
    PatternDecoder,
    noise_law,
    patterns_as_clicks,
    usual_log_density,
)
from foltr_audit.inference.replay import Replay
from foltr_audit.kernels.cascade import cascade_clicks
from foltr_audit.privacy.noise import GammaShare, Gaussian, NoiseLaw
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats
from tests.attacks.test_maximum_posterior import simulated, sound
from tests.fixtures.reference import exact_pair_weights, observed_pairs, pairwise_gradient
from tests.fixtures.tiny import BELIEF, view
from tests.inference.test_pattern_decoder import RATE, answer, believed, known, lists, told, walk_down

JOINT, QUICK = JointMaximumPosterior(), JointMaximumPosterior(sweeps=2)


class Several(NamedTuple):
    """Noisy messages of several lists each, and the clicks (n, B, k) behind them."""

    view: View
    clicks: Bools

    @property
    def ties(self) -> Bools:
        """Lists (n, B) in which all or nothing was clicked: both send the same."""
        return np.asarray(~self.clicks.any(axis=2) | self.clicks.all(axis=2))


def several(
    n: int, B: int, law: GammaShare, knowledge: Knowledge, *, k: int, features: int, seed: int = 0
) -> Several:
    """Clients whose grades, clicks and noise follow the server's belief and this law."""
    rng = np.random.default_rng(seed)
    one = lists([k] * (n * B), knowledge.having(belief=BELIEF), seed=seed, k=k, features=features)
    assert one.candidates is not None
    seen = replace(
        one,
        parameters=one.parameters[:n],
        messages=one.messages[:n],
        shown=one.shown.reshape(n, B, k),
        features=one.features.reshape(n, B, k, features),
        candidates=replace(one.candidates, query=one.candidates.query.reshape(n, B)),
        clients=np.ones(n, dtype=np.int64),
    )
    grades = np.stack([rng.choice(3, size=n * B, p=BELIEF.grades[j]) for j in range(k)], axis=1)
    clicks = cascade_clicks(grades, rng.random((n * B, 2 * k)), BELIEF.click, BELIEF.stop).reshape(n, B, k)
    models = Replay(seen).paths(np.arange(n), clicks)[-1]
    noise = law.sample(Streams(seed).clients("noise", 0, np.arange(n)), features)
    return Several(replace(seen, messages=models + noise), clicks)


def published(shares: int, B: int, n: int = 40) -> Several:
    """Lists of four documents with 24 features, the published noise and clip."""
    law = GammaShare(n=shares, scale=2.5)
    knowledge = known("last-click+1", "candidates", Ball(norm=3.0), law).having(learning_rate=0.1)
    return several(n, B, law, knowledge, k=4, features=24)


# --- exact ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares", [1, 7, 1000])
@pytest.mark.parametrize("pairs", ["all", "last-click+1"])
def test_of_one_list_it_says_what_map_says(pairs: str, shares: int) -> None:
    """But for messages that its noise law finds too strange; here there are none."""
    law = GammaShare(n=shares, scale=0.6)
    for clip in (None, Ball(norm=1.2)):
        seen = simulated(40, law, known(pairs, "candidates", clip, law)).view
        mine, exact = answer(JOINT, seen), answer(MaximumPosterior(), seen)
        assert np.array_equal(mine.guess, exact.guess)
        assert mine.any_click is not None
        assert exact.any_click is not None
        np.testing.assert_allclose(mine.scores, exact.scores, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(mine.any_click, exact.any_click, rtol=1e-9, atol=1e-12)


def stepped(seen: View, i: int, b: int, model: Floats) -> list[Floats]:
    """The model after list b of message i with each pattern on it, pair by pair."""
    assert seen.candidates is not None
    known, out = seen.knowledge, []
    first, last = seen.candidates.offsets[seen.candidates.query[i, b] :][:2]
    pool, shown = seen.candidates.features[first:last].astype(np.float64), seen.shown[i, b].tolist()
    weights = exact_pair_weights(pool @ model, shown, known.normaliser == "candidates")
    only = known.pairs == "last-click+1"
    for pattern in range(2 ** len(shown)):
        clicks = [bool(pattern >> j & 1) for j in range(len(shown))]
        after = model
        if observed_pairs(clicks, only):
            after = model + RATE * pairwise_gradient(weights, pool[shown], clicks, only)
        if known.clip is not None:
            after = after * min(1.0, known.clip.norm / float(np.linalg.norm(after, known.clip.ord)))
        out.append(after)
    return out


@pytest.mark.parametrize("clip", [None, Ball(norm=1.5)])
@pytest.mark.parametrize("pairs", ["all", "last-click+1"])
def test_the_guess_is_the_maximum_of_all_joint_patterns(pairs: str, clip: Ball | None) -> None:
    """Two lists of three documents: replay pair by pair, reads one by one, density by density."""
    law, k, n = GammaShare(n=7, scale=0.4), 3, 6
    seen = several(n, 2, law, known(pairs, "shown", clip, law), k=k, features=5, seed=3).view
    prior = np.log(walk_down(*believed("position", k, np.empty(0, dtype=np.int64)), k))
    guess, joints = answer(JOINT, seen).guess, list(product(range(2**k), repeat=2))
    for i in range(n):
        ends = [end for one in stepped(seen, i, 0, seen.parameters[i]) for end in stepped(seen, i, 1, one)]
        fits = law.log_density(seen.models[i] - np.array(ends)).sum(axis=1)
        values = fits + [sum(prior[list(joint)]) for joint in joints]
        best = np.array(joints[int(np.argmax(values))])
        assert np.array_equal(guess[i], patterns_as_clicks(best, k))


# --- how well -------------------------------------------------------------------------------------


def test_messages_that_nothing_explains_are_answered_by_votes() -> None:
    """Features of other queries: every score is a share of the twelve ends of the search."""
    made = published(1000, 2, n=3)
    strange = replace(made.view, features=np.roll(made.view.features, 1, axis=0))
    assert noise_law(strange.knowledge) == GammaShare(n=1000, scale=2.5)
    said = answer(QUICK, strange)
    sound(said)
    np.testing.assert_allclose(12 * said.scores, np.round(12 * said.scores), atol=1e-9)
    assert np.array_equal(said.guess, said.scores > 0.5)
    fractions = (said.scores > 0.01) & (said.scores < 0.99)
    assert fractions.any()
    explained = answer(QUICK, made.view)
    assert (np.abs(12 * explained.scores - np.round(12 * explained.scores)) > 1e-9).any()


def test_why_it_cannot_run() -> None:
    seen = view(3, B=2)
    assert JOINT.why_not(seen) is None
    long = lists([15], known("all", "shown", None, GammaShare(n=3, scale=1.0)), k=15)
    assert JOINT.why_not(long) == "a list has 15 documents; it weighs every click pattern of up to 14"


# --- the usual fit --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-3, 1.0, 70.0])
def test_closed_forms_of_the_usual_log_density(size: float) -> None:
    """Laplace: |x| / s is exponential. Normal: x^2 / 2 sigma^2 has mean 1/2 and variance 1/2."""
    cases: tuple[tuple[NoiseLaw, float, float], ...] = (
        (GammaShare(n=1, scale=size), -1 - np.log(2 * size), 1.0),
        (Gaussian(sigma=size), -0.5 - np.log(size) - 0.5 * np.log(2 * np.pi), 0.5**0.5),
    )
    for law, mean, spread in cases:
        found = usual_log_density(law, 1e-9 * size)
        np.testing.assert_allclose(found, (mean, spread, 0), rtol=0, atol=1e-5)


@pytest.mark.parametrize("noise", ["gamma-share:n=1,scale=2.5", "gaussian:sigma=0.3", None])
def test_it_says_nothing_where_noise_is_everywhere(noise: str | None) -> None:
    assert PatternDecoder(told(published(1000, 2, n=2).view, noise=noise)).usual_fit == np.inf
    assert PatternDecoder(told(published(1000, 2, n=2).view, noise="none")).usual_fit < np.inf


def test_a_fit_is_the_sum_of_log_densities() -> None:
    law = GammaShare(n=7, scale=0.4)
    seen = several(6, 2, law, known("all", "shown", None, law), k=4, features=5).view
    messages = np.array([3, 0, 3, 5])
    models = np.random.default_rng(1).normal(size=(4, 5))
    expected = law.log_density(seen.models[messages] - models).sum(axis=1)
    np.testing.assert_allclose(PatternDecoder(seen).fit(messages, models), expected, rtol=1e-9, atol=1e-6)
