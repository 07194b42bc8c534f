"""The maximum-posterior decoder: exact, best where it knows all, sound where it errs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from foltr_audit.attacks.maximum_posterior import MaximumPosterior
from scipy.special import softmax

from foltr_audit.core.plugins import Ball, Inference, Knowledge, View
from foltr_audit.inference.pattern_decoder import noise_law, patterns_as_clicks
from foltr_audit.inference.replay import Replay
from foltr_audit.kernels.cascade import cascade_clicks
from foltr_audit.privacy.noise import GammaShare, Gaussian, RoundingNoise, ScaleFreeNoise
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools
from tests.conftest import SetupOf
from tests.fixtures.tiny import BELIEF, cut, view
from tests.inference.test_pattern_decoder import (
    SETTINGS,
    answer,
    believed,
    gradients,
    known,
    lists,
    plain_likelihoods,
    told,
    walk_down,
)
from tests.inference.test_replay import learner, sent, wide

PATTERN = MaximumPosterior()
NOISE = GammaShare(n=3, scale=0.6)


class Simulated(NamedTuple):
    """Noisy messages of one list each, and the clicks (n, k) behind them."""

    view: View
    clicks: Bools


def simulated(
    n: int, law: GammaShare, knowledge: Knowledge, *, k: int = 6, features: int = 5, seed: int = 0
) -> Simulated:
    """Clients whose grades, clicks and noise follow the server's belief and this law."""
    rng = np.random.default_rng(seed)
    seen = lists([k] * n, knowledge.having(belief=BELIEF), seed=seed, k=k, features=features)
    grades = np.stack([rng.choice(3, size=n, p=BELIEF.grades[j]) for j in range(k)], axis=1)
    clicks = cascade_clicks(grades, rng.random((n, 2 * k)), BELIEF.click, BELIEF.stop)
    models = Replay(seen).paths(np.arange(n), clicks[:, np.newaxis])[-1]
    noise = law.sample(Streams(seed).clients("noise", 0, np.arange(n)), features)
    labels = grades[:, np.newaxis]
    return Simulated(replace(seen, messages=models + noise, labels=labels), clicks)


# --- exact ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["model", "update"])
@pytest.mark.parametrize("prior", ["position", "uniform", "relevance"])
@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_posteriors_equal_brute_force(pairs: str, normaliser: str, prior: str, kind: str) -> None:
    """Bayes over all patterns: pair by pair, read by read, density by density."""
    knowledge = known(pairs, normaliser, Ball(norm=1.2), NOISE).having(belief=BELIEF)
    seen = lists([1, 2, 3, 5, 0, 4], knowledge, seed=3, kind=kind, k=5)
    labels = np.where(seen.shown >= 0, np.arange(5) % 3, -1)
    seen = replace(seen, labels=labels)
    said = {
        guess: answer(MaximumPosterior.model_validate({"prior": prior, "guess": guess}), seen)
        for guess in ("pattern", "marginal")
    }
    for i, length in enumerate([1, 2, 3, 5, 0, 4]):
        click, stop = believed(prior, 5, labels[i, 0])
        gradient, moved = gradients(seen, i)
        likelihood = plain_likelihoods(seen, i, gradient, moved, NOISE)
        posterior = softmax(likelihood + np.log(walk_down(click, stop, length)))
        bits = patterns_as_clicks(np.arange(2**length), 5)
        for guess, named in (("pattern", bits[posterior.argmax()]), ("marginal", posterior @ bits > 0.5)):
            mine, any_click = said[guess], said[guess].any_click
            assert any_click is not None
            np.testing.assert_allclose(mine.scores[i, 0], posterior @ bits, rtol=1e-5, atol=1e-9)
            np.testing.assert_allclose(any_click[i, 0], 1 - posterior[0], rtol=1e-5, atol=1e-9)
            assert mine.guess[i, 0].tolist() == named.tolist()


def test_a_list_may_stand_at_any_place_of_its_message() -> None:
    seen = cut(view(8), B=1)
    later = cut(seen, B=3)
    order = [2, 0, 1]
    assert later.candidates is not None
    assert later.labels is not None
    moved = replace(
        later,
        shown=later.shown[:, order],
        features=later.features[:, order],
        labels=later.labels[:, order],
        candidates=replace(later.candidates, query=later.candidates.query[:, order]),
    )
    first, third = answer(PATTERN, seen), answer(PATTERN, moved)
    assert third.scores[:, 1].tobytes() == first.scores[:, 0].tobytes()
    assert np.array_equal(third.guess[:, 1], first.guess[:, 0])
    assert not third.scores[:, [0, 2]].any()


def test_why_it_cannot_run() -> None:
    assert PATTERN.why_not(view(2, B=1)) is None
    reason = PATTERN.why_not(view(5, B=2, seed=1))
    assert reason == "it decodes one interaction a message; joint-map decodes several"
    seen = view(2)
    for name in ("clip", "noise", "click_model", "lists", "interactions", "relevance", "candidates"):
        hidden = replace(seen, knowledge=seen.knowledge.without(frozenset({name})))
        assert PATTERN.why_not(hidden) is None
    long = lists([15], known("all", "shown", None, NOISE), k=15)
    assert PATTERN.why_not(long) == "a list has 15 documents; it weighs every click pattern of up to 14"


def test_padding_costs_nothing() -> None:
    """Lists of a trace may be padded to any width; only their documents have patterns."""
    narrow = lists([3, 6], known("all", "shown", None, NOISE), k=6)
    here = answer(PATTERN, narrow)
    for k in (14, 60):
        padding = ((0, 0), (0, 0), (0, k - 6))
        shown = np.pad(narrow.shown, padding, constant_values=-1)
        features = np.pad(narrow.features, (*padding, (0, 0))).astype(np.float32)
        there = answer(PATTERN, replace(narrow, shown=shown, features=features))
        np.testing.assert_array_equal(there.scores[..., :6], here.scores)
        assert np.array_equal(there.guess[..., :6], here.guess)
        assert not there.scores[..., 6:].any()


# --- best -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", ["none", "clip:norm=0.9"])
@pytest.mark.parametrize("ranker", ["linear", "neural:hidden=6"])
@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_without_noise_every_list_is_read_but_ties(
    pairs: str, normaliser: str, ranker: str, clip: str, setup_of: SetupOf
) -> None:
    for dtype, message in (("float32", "model"), ("float64", "update")):
        text = learner(pairs, normaliser)
        setup = setup_of(learner=text, dtype=dtype, message=message, data=wide(10), defense=(clip,))
        real = sent(setup, ranker=ranker)
        clicks, there = real.clicks[:, 0], real.view.is_document[:, 0]
        ties = ~clicks.any(axis=1) | (clicks == there).all(axis=1)
        said = answer(PATTERN, real.view)
        assert np.array_equal(said.guess[~ties, 0], clicks[~ties])
        assert (~ties).sum() > 15
        tied = said.guess[ties, 0]
        assert np.all(~tied.any(axis=1) | (tied == there[ties]).all(axis=1))


# --- wrong knowledge ------------------------------------------------------------------------------

SHARE = GammaShare(n=100, scale=2.5)


def sound(said: Inference) -> None:
    """Every number of an answer is a probability."""
    assert said.any_click is not None
    for values in (said.scores, said.any_click):
        assert np.all((values >= 0) & (values <= 1 + 1e-12))


def test_the_law_behind_a_text() -> None:
    share = GammaShare(n=10, scale=2.5)
    for noise, law in (
        (share.text, share),
        ("gaussian:sigma=0.5", Gaussian(sigma=0.5)),
        ("none", RoundingNoise(resolution=2.0**-24)),
        ("no such law", ScaleFreeNoise(resolution=2.0**-24)),
        (None, ScaleFreeNoise(resolution=2.0**-24)),
    ):
        assert noise_law(Knowledge(noise=noise)) == law
    assert noise_law(Knowledge(noise="none", number_format="float64")) == RoundingNoise(resolution=2.0**-50)


@pytest.mark.parametrize("noise", [SHARE.text, "gaussian:sigma=0.4", "none", None])
@pytest.mark.parametrize("clip", [None, Ball(norm=2.0), Ball(norm=2.0, ord=1)])
@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_numbers_of_any_size_get_probabilities(
    pairs: str, normaliser: str, clip: Ball | None, noise: str | None
) -> None:
    """Of the message, the model or both, which may also point apart."""
    cases = list(product((1e-300, 1e160, 1e300), (0.0, 1.0, -1.0, np.nan), (0, 1, 4, 6)))
    sizes, turn, lengths = (np.array(column)[:, np.newaxis] for column in zip(*cases, strict=True))
    for kind in ("model", "update"):
        seen = lists(lengths[:, 0].tolist(), known(pairs, normaliser, clip, SHARE), kind=kind, k=6)
        signs = np.sign(seen.messages)
        model = np.where(turn == 0, seen.parameters, np.where(np.isnan(turn), sizes, turn * sizes) * signs)
        messages = np.where(np.isnan(turn), seen.messages, sizes * signs)
        changed = replace(seen, messages=messages, parameters=model)
        sound(answer(PATTERN, told(changed, noise=noise, belief=BELIEF)))


@pytest.mark.parametrize("size", [1e-180, 1.0, 1e100, 1e180])
def test_a_clip_of_models_of_any_size_is_replayed(size: float) -> None:
    """Squares of such numbers underflow or overflow; a client's own clip does not mind.

    Huge is one parameter only, that of a feature which no document has.
    """
    clicks = np.tile([True, False, True, False], (20, 1, 1))
    seen = lists([4] * 20, known("all", "shown", Ball(norm=0.5 * size), Gaussian(sigma=0.001 * size)), k=4)
    features, model = seen.features.copy(), seen.parameters * size
    if size > 1:
        features[..., -1], model = 0, np.where(np.arange(5) == 4, size, seen.parameters)
        seen = told(seen, noise=None)
    seen = told(replace(seen, features=features, parameters=model), learning_rate=min(size, 1.0))
    said = answer(PATTERN, replace(seen, messages=Replay(seen).paths(np.arange(20), clicks)[-1]))
    assert np.array_equal(said.guess, clicks)
