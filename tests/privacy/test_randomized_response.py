"""Randomised response over values: its matrix, its epsilon by brute force, conversion, text, accounting."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.core.click_models import (
    CascadeClickModel,
    InformationalClickModel,
    NavigationalClickModel,
    PerfectClickModel,
)
from foltr_audit.errors import UsageError
from foltr_audit.privacy.accounting import AccountingContext, SumMembers, upper_bound
from foltr_audit.privacy.events import UNITS, ClickRandomization, MetricRandomization
from foltr_audit.privacy.randomized_response import RandomizedResponse, compose_epsilon
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf

MODELS = (PerfectClickModel(), NavigationalClickModel(), InformationalClickModel())
LISTS = np.array(list(product((0, 1, 2), repeat=5)))


# --- epsilon by brute force ----------------------------------------------------------------------------


def largest_loss(matrix: Floats) -> float:
    """The largest |ln ratio| over all columns and pairs of rows of a matrix of chances."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(matrix)
        ratios = np.abs(logs[:, np.newaxis] - logs[np.newaxis])
    return float(np.nanmax(ratios))  # what neither may report says nothing


@pytest.mark.parametrize("values", [2, 3, 11])
@pytest.mark.parametrize("p", [0.0, 1e-6, 0.1, 0.25, 0.5, 0.9, 0.99955, 1.0])
def test_epsilon_is_the_largest_loss_of_the_matrix(p: float, values: int) -> None:
    response = RandomizedResponse(p, values)
    np.testing.assert_allclose(response.matrix.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(np.diag(response.matrix), p)
    assert response.matrix.shape == (values, values)
    assert response.epsilon == pytest.approx(largest_loss(response.matrix), rel=1e-9, abs=1e-12)


def test_without_any_truth_everything_is_told() -> None:
    """Of two values a lie is as good as the truth; of more, it rules one out."""
    for values in (2, 3, 11):
        assert RandomizedResponse(0.0, values).epsilon == math.inf
        assert RandomizedResponse(1.0, values).epsilon == math.inf
        assert RandomizedResponse(1 / values, values).epsilon == pytest.approx(0, abs=1e-12)
    assert RandomizedResponse(0.2, 2).epsilon == pytest.approx(RandomizedResponse(0.8, 2).epsilon, rel=1e-12)


def first_click_law(model: CascadeClickModel, values: int) -> Floats:
    """P(first click on rank r) of every list of labels, column 0 for no click, by following a reader."""
    attraction, _ = model.setting(2)
    law = np.zeros((len(LISTS), values))
    for row, labels in enumerate(LISTS):
        unclicked = 1.0
        for rank, label in enumerate(labels, start=1):
            law[row, rank] = unclicked * attraction[label]
            unclicked *= 1 - attraction[label]
        law[row, 0] = unclicked
    return law


def loss_of_labels(model: CascadeClickModel, response: RandomizedResponse) -> Floats:
    """The largest |ln ratio| of each reported value over all pairs of label lists."""
    reported = first_click_law(model, response.values) @ response.matrix
    return np.asarray(np.log(reported.max(axis=0) / reported.min(axis=0)))


@pytest.mark.parametrize("values", [6, 11])
@pytest.mark.parametrize("p", [0.25, 0.5, 0.9])
def test_labels_lose_no_more_than_epsilon(p: float, values: int) -> None:
    """Over all lists of five labels, pairs and components; all of it if users click what is relevant."""
    response = RandomizedResponse(p, values)
    losses = [loss_of_labels(model, response).max() for model in MODELS]
    assert losses[0] == pytest.approx(response.epsilon, rel=1e-12)
    assert max(losses) <= response.epsilon * (1 + 1e-12)
    assert losses[0] > losses[1] > losses[2] > 0


# --- conversion and composition --------------------------------------------------------------------------


def test_published_values() -> None:
    for p, epsilon in ((0.25, 1.204), (0.5, 2.303), (0.9, 4.500)):
        assert RandomizedResponse(p, 11).epsilon == pytest.approx(epsilon, abs=5e-4)
    assert RandomizedResponse.with_epsilon(10.0, 11).p == pytest.approx(
        0.99955, abs=5e-6
    )  # the "10" of the papers, printed as p = 1
    assert RandomizedResponse(0.5, 11).epsilon == pytest.approx(math.log(10), rel=1e-12)


def test_composition_is_reached_by_brute_force() -> None:
    """Of three interactions: the loss of all triples of reports is three times that of one."""
    matrix = RandomizedResponse(0.7, 4).matrix
    triple = np.einsum("ai,bj,ck->abcijk", matrix, matrix, matrix).reshape(64, 64)
    assert largest_loss(triple) == pytest.approx(
        compose_epsilon(RandomizedResponse(0.7, 4).epsilon, 3), rel=1e-12
    )


# --- text and refusals -----------------------------------------------------------------------------------


@given(p=st.floats(0, 1), values=st.integers(2, 2000))
def test_the_text_reads_back(p: float, values: int) -> None:
    response = RandomizedResponse(p, values)
    assert RandomizedResponse.parse(response.text, values) == response


def test_texts() -> None:
    assert RandomizedResponse(0.25, 11).text == "metric-rr:p=0.25"
    assert RandomizedResponse.parse("none", 11) == RandomizedResponse(1.0, 11)
    np.testing.assert_array_equal(RandomizedResponse(1.0, 11).matrix, np.eye(11))
    for text in ("metric-rr", *(f"metric-rr:p={wrong}" for wrong in ("", 1.5, -0.1, "nan")), "", "laplace"):
        assert RandomizedResponse.parse(text, 11) is None


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan, math.inf])
def test_refused_probabilities(p: float) -> None:
    with pytest.raises(UsageError, match=r"^metric-rr: p=\S+; expected a probability from 0 to 1$"):
        RandomizedResponse(p, 11)


def test_other_refusals() -> None:
    with pytest.raises(UsageError, match="1 values; expected 2"):
        RandomizedResponse(0.5, 1)
    with pytest.raises(UsageError, match="0 values; expected 2"):
        RandomizedResponse.with_epsilon(1.0, 0)
    for bad in (-1.0, math.nan):
        with pytest.raises(UsageError, match="expected a number from 0"):
            RandomizedResponse.with_epsilon(bad, 11)
        with pytest.raises(UsageError, match="expected numbers from 0"):
            compose_epsilon(bad, 2)
    with pytest.raises(UsageError, match="for -1 interactions"):
        compose_epsilon(1.0, -1)


# --- what randomised metrics prove -----------------------------------------------------------------------


def situation(unit: str, interactions: int, rounds: int = 1) -> AccountingContext:
    """A server that sees each message of so many interactions."""
    return AccountingContext(
        view="individual",
        unit=unit,
        parameters=46,
        members=SumMembers(cohort=10),
        interactions=interactions,
        rounds=rounds,
    )


def worst_loss(p: float, v: int, interactions: int, changed: int) -> float:
    """The largest log ratio of a sum of reports when the first `changed` true values may be any others."""
    law = RandomizedResponse(p, v).matrix
    values = [0.0, *(1 / rank for rank in range(1, v))]

    def sums(truth: tuple[int, ...]) -> dict[float, float]:
        found: dict[float, float] = {}
        for report in product(range(v), repeat=interactions):
            chance = math.prod(law[t, r] for t, r in zip(truth, report, strict=True))
            key = round(sum(values[r] for r in report), 12)
            found[key] = found.get(key, 0.0) + chance
        return found

    every = {truth: sums(truth) for truth in product(range(v), repeat=interactions)}
    return max(
        abs(math.log(a[key] / b[key]))
        for one, a in every.items()
        for other, b in every.items()
        if one[changed:] == other[changed:]
        for key in a
    )


@pytest.mark.parametrize("p", [0.4, 0.5, 0.9])
@pytest.mark.parametrize("interactions", [1, 2, 3])
def test_a_message_never_loses_more_than_its_bound(p: float, interactions: int) -> None:
    events = (MetricRandomization(epsilon=RandomizedResponse(p, 3).epsilon),)
    for unit in UNITS:
        changed = 1 if unit in ("click", "interaction") else interactions
        bound = upper_bound(events, situation(unit, interactions))
        exact = worst_loss(p, 3, interactions, changed)
        assert exact <= bound.epsilon * (1 + 1e-12), unit
        assert bound.epsilon == pytest.approx(changed * RandomizedResponse(p, 3).epsilon)
        if changed == interactions:
            assert exact == pytest.approx(bound.epsilon), "all values 0, or all 1: told by their sum alone"


def test_rounds_compose_and_the_better_proof_counts() -> None:
    events = (MetricRandomization(epsilon=0.5),)
    assert upper_bound(events, situation("client", 4, rounds=10)).epsilon == pytest.approx(20.0)
    assert upper_bound(events, situation("interaction", 4, rounds=10)).epsilon == pytest.approx(0.5)
    both = (ClickRandomization(epsilon=0.01), *events)
    assert upper_bound(both, situation("interaction", 4)).epsilon == pytest.approx(0.1)
    assert "4 metrics randomised" in upper_bound(events, situation("query", 4)).how
    assert math.isinf(upper_bound((MetricRandomization(epsilon=math.inf),), situation("click", 1)).epsilon)


@pytest.mark.parametrize(("defense", "epsilon"), [("metric-rr:p=0.25", 1.204), ("metric-rr:eps=2.3", 2.3)])
@pytest.mark.parametrize("metric", ["maxrr", "dcg"])
def test_the_chain_of_an_experiment(setup_of: SetupOf, metric: str, defense: str, epsilon: float) -> None:
    if metric == "dcg" and "p=" in defense:
        defense += ",values=1024"
        epsilon = math.log(0.25 / 0.75 * 1023)
    setup = setup_of(learner=f"foltr-es:metric={metric}", defense=(defense,))
    assert setup.privacy.claim() == pytest.approx(epsilon, abs=1e-3)
    bound = upper_bound(setup.privacy.events(), situation("client", 4))
    assert bound.epsilon == pytest.approx(4 * epsilon, abs=4e-3)
    law = RandomizedResponse.parse(setup.privacy.noise() or "", setup.learner.values.size)  # type: ignore[attr-defined]
    assert law is not None
    assert law.epsilon == pytest.approx(epsilon, abs=1e-3)


def test_what_a_message_composes_is_said(setup_of: SetupOf) -> None:
    told = setup_of(learner="foltr-es", defense=("metric-rr:eps=1.2",)).privacy.warnings()
    assert tuple(each.text for each in told) == (
        "metric-rr: epsilon 1.2 is of one interaction; a message of 4 composes 4.8; claim 4.8 for a message",
    )
    for quiet in ("foltr-es:interactions=1,antithetic=false", "foltr-es"):
        defense = "metric-rr:eps=1.2" if "interactions" in quiet else "metric-rr:p=1"
        assert setup_of(learner=quiet, defense=(defense,)).privacy.warnings() == ()


# --- reports of clicks ------------------------------------------------------------------------------


@given(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]), st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.75, 1.0]))
def test_the_epsilon_of_reports_is_the_largest_log_ratio_of_their_law(
    unclicked: float, clicked: float
) -> None:
    event = ClickRandomization.reporting(unclicked, clicked)
    law = np.array([[1 - p, p] for p in event.law])
    np.testing.assert_allclose(law[:, 1], (unclicked, clicked), atol=1e-15)
    with np.errstate(divide="ignore"):
        possible = law[:, law.any(axis=0)]
        ratios = np.abs(np.log(possible[0]) - np.log(possible[1]))
    np.testing.assert_allclose(event.epsilon, ratios.max(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("keep", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_randomised_response_keeps_with_its_probability(keep: float) -> None:
    event = ClickRandomization.kept_with(keep)
    np.testing.assert_allclose(event.law, (1 - keep, keep), atol=1e-15)
    np.testing.assert_allclose(event.epsilon, RandomizedResponse(keep, 2).epsilon, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("eps", [0.0, 0.12, 1.2, 20.0, math.inf])
def test_an_epsilon_alone_stands_for_randomised_response(eps: float) -> None:
    np.testing.assert_allclose(ClickRandomization(epsilon=eps).law[1], 1 / (1 + math.exp(-eps)), rtol=1e-12)


def test_a_report_needs_probabilities() -> None:
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="expected probabilities"):
            ClickRandomization.reporting(0.5, wrong)
