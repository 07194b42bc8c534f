"""Probabilities and bits against scikit-learn, closed forms, known channels and plain loops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from foltr_audit.attacks.baselines import PositionPrior, RelevancePrior
from foltr_audit.attacks.evolution_messages import ESFirstClick
from foltr_audit.attacks.maximum_posterior import MaximumPosterior
from foltr_audit.attacks.olsr import OLSR
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as sk

from foltr_audit.core.plugins import Attack, Inference, View
from foltr_audit.core.records import Collection
from foltr_audit.core.results import AttackRecord
from foltr_audit.errors import PluginError
from foltr_audit.inference.pattern_decoder import PatternDecoder
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.calibration import (
    calibration,
    calibration_error,
    held,
    information_records,
    reliability,
)
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.observer import Observer
from foltr_audit.privacy.noise import GammaShare, Gaussian
from foltr_audit.privacy.randomized_response import RandomizedResponse
from foltr_audit.rng import Streams
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Bools, Floats
from tests.attacks.test_es_first_click import answer, patterns_of, sent
from tests.attacks.test_maximum_posterior import simulated
from tests.conftest import SetupOf
from tests.fixtures.evidence import evidence
from tests.fixtures.judging import judge_clicks
from tests.fixtures.result_rows import attacked_clicks, plain, report_on
from tests.fixtures.there import there
from tests.inference.test_pattern_decoder import known as known_steps
from tests.judge.test_clicks import recording_of


def honest(seed: int, lists: int = 80, k: int = 6, queries: int = 12) -> ClickEvidence:
    """Lists whose clicks are drawn from the probabilities that the attack gives."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 1.2, size=(lists, k))
    clicks = rng.random((lists, k)) < p
    lengths = rng.integers(1, k + 1, size=lists)
    p[np.arange(k) >= lengths[:, np.newaxis]] = -np.inf  # the padding must not count
    names = [f"q{q}" for q in rng.integers(0, queries, size=lists)]
    return evidence(names, clicks, p > 0.5, lengths, p, probabilities=["attack"])


def calibrated(judged: ClickEvidence) -> AttackRecord:
    return calibration(judged, "attack", QueryBootstrap(judged.query, Streams(1)))


def documents(judged: ClickEvidence) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    here = judged.is_document
    return judged.guessed["attack"].scores[here], judged.clicks[here]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_scores_equal_scikit_learn_over_all_documents(seed: int) -> None:
    judged = honest(seed)
    assert not judged.has_click.all()
    p, clicked = documents(judged)
    found = calibrated(judged)
    assert found.counts["documents"] == p.size
    always = np.full(p.size, clicked.mean())
    for said, brier, log_loss in (
        (p, found.metrics["brier"], found.metrics["log_loss"]),
        (always, found.metrics["brier_base_rate"], found.metrics["log_loss_base_rate"]),
    ):
        assert brier.value == pytest.approx(sk.brier_score_loss(clicked, said), rel=1e-12)
        assert log_loss.value == pytest.approx(sk.log_loss(clicked, said), rel=1e-12)
    assert found.metrics["brier"].value < found.metrics["brier_base_rate"].value


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 1000), st.booleans()), max_size=40))
def test_bins_and_their_error_equal_plain_loops(pairs: list[tuple[int, bool]]) -> None:
    """Whole thousandths: 100, 200, ... belong to the bin that they begin, 1000 to the last."""
    p, clicked = np.array([t / 1000 for t, _ in pairs]), np.array([c for _, c in pairs], dtype=np.bool_)
    bins = reliability(p, clicked)
    total = 0.0
    for b, row in enumerate(bins):
        mine = [(t / 1000, c) for t, c in pairs if min(t // 100, 9) == b]
        assert (row["low"], row["high"], row["documents"]) == (b / 10, (b + 1) / 10, len(mine))
        if mine:
            mean, share = np.mean(mine, axis=0)
            assert (row["probability"], row["clicked"]) == pytest.approx((mean, share), rel=1e-12)
            total += len(mine) * abs(mean - share)
        else:
            assert (row["probability"], row["clicked"]) == (None, None)
    mean = total / len(pairs) if pairs else np.nan
    assert calibration_error(bins) == pytest.approx(mean, rel=1e-9, abs=1e-15, nan_ok=True)


def test_a_certain_mistake_costs_as_much_as_one_in_a_quadrillion() -> None:
    clicks = np.array([[True, False], [True, False]])
    both = (clicks * 1.0, ~clicks * 1.0)
    right, wrong = (calibrated(evidence(["a", "b"], clicks, p > 0, scores=p)) for p in both)
    assert right.metrics["brier"].value == 0.0
    assert right.metrics["log_loss"].value == pytest.approx(0.0, abs=2e-15)
    assert wrong.metrics["brier"].value == 1.0
    assert wrong.metrics["log_loss"].value == pytest.approx(15 * np.log(10), rel=1e-2)
    assert wrong.more["calibration_error"] == 1.0
    assert right.metrics["brier_base_rate"].value == 0.25


def test_no_list_and_one_query() -> None:
    nothing = calibrated(honest(6).at(np.zeros(80, dtype=np.bool_)))
    assert nothing.counts["documents"] == 0
    assert np.isnan(
        [nothing.metrics["brier"].value, nothing.metrics["log_loss"].value, nothing.more["calibration_error"]]
    ).all()
    alone = calibrated(honest(6, queries=1))
    assert not np.isnan(alone.metrics["brier"].value)
    assert alone.metrics["brier"].ci95 is None


@pytest.mark.parametrize("score", [np.inf, -np.inf, -0.1, 1.001, np.nan])
def test_a_score_that_is_no_probability_is_refused(score: float) -> None:
    clicks = np.array([[True, False]])
    judged = evidence(["a"], clicks, clicks, scores=np.array([[0.5, score]]))
    with pytest.raises(PluginError, match=r"attack attack: score .*; expected probabilities"):
        calibrated(judged)


def test_rounding_beyond_one_is_no_error() -> None:
    clicks = np.array([[True, False]])
    scores = np.array([[np.nextafter(1.0, 2.0), -1e-17]])
    found = calibrated(evidence(["a"], clicks, clicks, scores=scores))
    assert found.metrics["brier"].value == 0.0
    assert found.more["reliability"][9]["documents"] == found.more["reliability"][9]["probability"] == 1


# --- bits -----------------------------------------------------------------------------------------


def resamples(judged: ClickEvidence) -> QueryBootstrap:
    return QueryBootstrap(judged.query, Streams(1))


def with_bits(before: Floats, after: Floats, documents: int = 3, *, exact: bool = False) -> ClickEvidence:
    """Lists with these surprisals, each of a query of its own."""
    L = before.size
    clicks = np.zeros((L, documents), dtype=np.bool_)
    judged = evidence([f"q{i}" for i in range(L)], clicks, clicks)
    guessed = replace(judged.guessed["attack"], surprisal=after)
    labels = frozenset({"attack"} if exact else ())
    return replace(judged, surprisal=before, guessed={"attack": guessed}, exact=labels)


def measured(judged: ClickEvidence) -> AttackRecord:
    (found,) = information_records(judged, resamples(judged))
    return found


def of_attack(attack: Attack, seen: View, clicks: Bools) -> ClickEvidence:
    """Evidence with the surprisals of an attack's patterns on lists (n, B, k) with these clicks."""
    n, B, k = clicks.shape
    numbers = (clicks @ (1 << np.arange(k)))[..., np.newaxis]
    with np.errstate(divide="ignore"):
        after = -np.log2(np.take_along_axis(patterns_of(answer(attack, seen)), numbers, axis=2))
    decoder, every = PatternDecoder(seen, "relevance"), np.arange(n)
    before = np.stack([-decoder.log_prior_of(every, b, clicks[:, b]) / np.log(2) for b in range(B)], axis=1)
    says = getattr(attack, "exact_posterior", lambda view: False)
    return with_bits(before.reshape(-1), after.reshape(-1), k, exact=says(seen))


def deviation(judged: ClickEvidence, truth: float) -> float:
    """How many standard errors the estimate lies above the truth."""
    after = there(judged.guessed["attack"].surprisal)
    told = judged.surprisal - held(after, judged.is_document.sum(axis=1))
    return float((told.mean() - truth) / (told.std() / told.size**0.5))


def exact_metric_bits(prior: Floats, channel: Floats) -> Floats:
    """I(outcome; report) in bits of single metrics with priors (L, v) and a channel (v, v), float64 (L,).

    A message depends on the clicks by the outcome alone, so this is I(C; M) as well (Cover & Thomas 2006,
    "Elements of information theory", section 2.8).
    """
    reported = np.einsum("lo,or->lr", prior, channel)
    return np.asarray(entropy(reported) - np.einsum("lo,o->l", prior, entropy(channel)))


def entropy(p: Floats) -> Floats:
    """Entropy of distributions along the last axis, in bits."""
    return np.asarray(-np.where(p > 0, p * np.log2(np.where(p > 0, p, 1.0)), 0.0).sum(axis=-1))


# --- the estimate ---------------------------------------------------------------------------------


def test_the_mean_of_the_differences_with_what_it_may_miss() -> None:
    before, after = np.tile([3.0, 2.0, 5.0, np.nan], 2), np.tile([1.0, 2.0, 2.0, 1.0], 2)
    found = measured(with_bits(before, after))
    assert found.counts["lists"] == 6
    assert found.metrics["bits"].value == pytest.approx(5 / 3, abs=1e-5)
    assert found.metrics["entropy"].value == pytest.approx(10 / 3)
    assert found.metrics["share"].value == pytest.approx(0.5, abs=1e-5)
    assert found.more["bias_bound"] == pytest.approx(5 / 3, abs=1e-5)
    low, high = there(found.metrics["bits"].ci95)
    assert low < found.metrics["bits"].value < high
    assert measured(with_bits(before, after, exact=True)).more["bias_bound"] < 2e-6


def test_what_was_called_impossible_costs_much_and_is_counted() -> None:
    """20 bits and one for each document: a posterior mixed with a uniform one still sums to 1."""
    found = measured(with_bits(np.array([3.0, 3.0]), np.array([np.inf, 1.0])))
    assert (found.counts["impossible"], found.counts["wrong_prior"]) == (1, 0)
    assert found.metrics["bits"].value == pytest.approx((3 - 23 + 2) / 2, abs=1e-5)
    rng = np.random.default_rng(0)
    posterior = np.where(np.arange(8) < 4, 0.0, rng.random(8))
    posterior /= posterior.sum()
    with np.errstate(divide="ignore"):
        mixed = 2.0 ** -held(-np.log2(posterior), np.full(8, 3))
    assert mixed.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.all(mixed > 0)


def test_a_prior_that_rules_out_the_truth_gives_no_estimate() -> None:
    found = measured(with_bits(np.array([np.inf, 3.0]), np.array([1.0, 1.0]), exact=True))
    assert found.counts["wrong_prior"] == 1
    assert np.isnan(
        [
            found.metrics["bits"].value,
            found.metrics["entropy"].value,
            found.metrics["share"].value,
            found.more["bias_bound"],
        ]
    ).all()


def test_attacks_without_patterns_and_lists_without_prior_have_no_bits() -> None:
    judged = with_bits(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    silent = {"attack": replace(judged.guessed["attack"], surprisal=None)}
    assert not list(information_records(replace(judged, guessed=silent), resamples(judged)))
    assert not list(information_records(replace(judged, surprisal=np.full(2, np.nan)), resamples(judged)))


@pytest.mark.parametrize(("p", "metric"), [(0.25, "maxrr"), (0.9, "maxrr"), (1.0, "maxrr"), (0.5, "dcg")])
def test_single_metrics_tell_what_the_closed_form_says(p: float, metric: str) -> None:
    """Within 4 standard errors; an attack that believes in another p is 4 below, and never above."""
    noise = "none" if p == 1 else f"metric-rr:p={p}"
    made = sent(6000, 1, 4, seed=1, noise=noise, metric=metric)
    attack, decoder = ESFirstClick(prior="relevance"), PatternDecoder(made.view, "relevance")
    beliefs = np.exp(decoder.log_priors(np.arange(6000), 0))
    if metric == "dcg":
        prior = np.zeros((6000, 1024))
        prior[:, :16] = beliefs
        channel = RandomizedResponse(p, 1024).matrix[:16]
        inside = np.einsum("lo,or->lr", beliefs, channel)
        rows = -(channel * np.log2(channel)).sum(axis=1)
        truth = float((-(inside * np.log2(inside)).sum(axis=1) - beliefs @ rows).mean())
    else:
        first = [0, *(1 + (number & -number).bit_length() - 1 for number in range(1, 16))]
        prior = np.stack([np.bincount(first, weights=row, minlength=11) for row in beliefs])
        truth = float(exact_metric_bits(prior, RandomizedResponse(p, 11).matrix).mean())
    judged = of_attack(attack, made.view, made.clicks)
    assert abs(deviation(judged, truth)) < 4
    assert measured(judged).more["exact_posterior"]
    wrong = replace(made.view, knowledge=made.view.knowledge.having(noise="metric-rr:p=0.02"))
    assert deviation(of_attack(attack, wrong, made.clicks), truth) < -4


@pytest.mark.parametrize(
    ("law", "exact"),
    [
        *[(text, True) for text in ("laplace:scale=0.5", "gaussian:sigma=0.5")],
        *[(text, False) for text in ("gamma-share:n=1000,scale=2.5", "none", None)],
    ],
)
def test_a_posterior_of_noise_that_drowns_in_rounding_is_not_exact(law: str | None, exact: bool) -> None:
    knowledge = known_steps("all", "shown", None, Gaussian(sigma=1.0))
    seen = simulated(2, GammaShare(n=1, scale=1.0), knowledge).view
    told = replace(seen, knowledge=seen.knowledge.having(noise=law))
    assert MaximumPosterior(prior="relevance").exact_posterior(told) is exact
    assert not MaximumPosterior().exact_posterior(told)


# --- judged rounds, and their report --------------------------------------------------------------


def judged_rounds(setup: Setup, collection: Collection, *methods: Attack, hidden: str = "") -> ClickEvidence:
    """What attacks find in two rounds of an experiment; the observer does without what is hidden."""
    recording = recording_of(setup)
    observer = Observer(recording.header, collection, frozenset({hidden} - {""}))
    return judge_clicks(recording, observer, methods, Streams(1))


def test_the_judge_keeps_the_surprisal_of_the_true_pattern(setup_of: SetupOf, collection: Collection) -> None:
    """Of the documents as they were shown, in whatever order the observer holds them."""
    setup = setup_of(learner="fpdgd:interactions=1", clients=60, click_model="informational")
    prior, position = RelevancePrior(), PositionPrior()
    judged = judged_rounds(setup, collection, prior, position, OLSR())
    same = there(judged.guessed[prior.label].surprisal)
    np.testing.assert_allclose(same, judged.surprisal, rtol=1e-9)
    assert not np.isnan(judged.surprisal).any()
    assert judged.guessed["olsr"].surprisal is None
    assert judged.exact == frozenset()
    assert judged.same_message
    relevant = judged_rounds(setup, collection, position, hidden="relevance")
    assert np.array_equal(relevant.surprisal, judged.surprisal), "the prior is that of who knows all"
    no_model = judged_rounds(setup, collection, OLSR(), hidden="click_model")
    assert np.array_equal(no_model.surprisal, judged.surprisal)


class ByPosition(Attack):
    """Believes in the documents' places inside their query, whose order an observer knows anyway."""

    name: ClassVar[str] = "by-position"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        k = view.shown.shape[2]
        each = np.where(view.shown % 2 == 0, 0.9, 0.2)
        bits = (np.arange(1 << k)[:, np.newaxis] >> np.arange(k)) & 1 == 1
        one = np.where(bits, each[:, :, np.newaxis], 1 - each[:, :, np.newaxis])
        one = np.where(view.is_document[:, :, np.newaxis], one, np.where(bits, 0.0, 1.0))
        zeros = np.zeros(view.shown.shape)
        return Inference(scores=zeros, guess=zeros > 0, patterns=one.prod(axis=3))


def test_patterns_are_read_in_the_observers_order(setup_of: SetupOf, collection: Collection) -> None:
    setup = setup_of(learner="fpdgd:interactions=2", clients=30)
    known, blind = (judged_rounds(setup, collection, ByPosition(), hidden=name) for name in ("", "order"))
    chance = np.where(known.shown % 2 == 0, 0.9, 0.2)
    each = np.where(known.clicks, chance, 1 - chance)
    expected = -np.log2(np.where(known.is_document, each, 1.0)).sum(axis=1)
    for judged in (known, blind):
        after = there(judged.guessed["by-position"].surprisal)
        np.testing.assert_allclose(after, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("defense", "exact"),
    [
        (("clip:norm=1", "laplace:eps=1,sensitivity=2"), True),
        (("laplace:eps=1,sensitivity=2",), True),
        (("none",), False),
        (("click-rr:eps=2", "laplace:eps=1,sensitivity=2"), True),
        (("click-rr:eps=2,debias=true", "laplace:eps=1,sensitivity=2"), False),
        (("laplace:eps=1,sensitivity=2", "sign:scale=0.5"), False),
    ],
)
def test_a_posterior_is_exact_only_if_the_view_tells_all_that_was_done(
    setup_of: SetupOf, collection: Collection, defense: tuple[str, ...], exact: bool
) -> None:
    setup = setup_of(learner="fpdgd:interactions=1", clients=10, defense=defense, click_model="perfect")
    attack = MaximumPosterior(prior="relevance")
    judged = judged_rounds(setup, collection, attack)
    assert judged.exact == (frozenset({attack.label}) if exact else frozenset())
    lost = {"relevance", "noise"} | ({"clip"} if "clip:norm=1" in defense else set())
    for name in lost:
        assert not judged_rounds(setup, collection, attack, hidden=name).exact, name


def test_pooled_evidence_keeps_its_bits() -> None:
    one = with_bits(np.array([1.0, 2.0]), np.array([0.5, 0.5]), exact=True)
    other = with_bits(np.array([3.0]), np.array([1.5]))
    both = ClickEvidence.combined([one, other])
    assert both.surprisal.tolist() == [1.0, 2.0, 3.0]
    assert there(both.guessed["attack"].surprisal).tolist() == [0.5, 0.5, 1.5]
    assert both.exact == frozenset()
    assert ClickEvidence.combined([one, one]).exact == one.exact
    assert both.at(np.array([2])).surprisal.tolist() == [3.0]
    lost = {"attack": replace(other.guessed["attack"], surprisal=None)}
    assert ClickEvidence.combined([one, replace(other, guessed=lost)]).guessed["attack"].surprisal is None


def rows(judged: ClickEvidence) -> list[dict[str, Any]]:
    return plain(report_on(attacked_clicks(judged, eps_claimed=1.2)).information)


def test_rows_hold_the_estimate_and_baselines_have_none() -> None:
    judged = with_bits(np.array([3.0, 2.0, 5.0]), np.array([1.0, np.inf, 2.0]))
    (row,) = rows(judged)
    found = measured(judged)
    expected = {
        **{name: found.metrics[name].value for name in ("bits", "entropy", "share")},
        "bias_bound": found.more["bias_bound"],
        "lists": 3,
        "queries": 3,
        "impossible": 1,
        "wrong_prior": 0,
        "exact_posterior": False,
        "eps_claimed": 1.2,
    }
    assert {name: row[name] for name in expected} == expected
    baseline = replace(judged, baselines=frozenset({"attack"}))
    assert rows(baseline) == []
    wrong = with_bits(np.array([np.inf]), np.array([1.0]))
    (row,) = rows(wrong)
    assert (row["bits"], row["share"], row["bias_bound"], row["wrong_prior"]) == (None, None, None, 1)
