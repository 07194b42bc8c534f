"""The plug-in that randomises metrics: its law by chi-square, its streams, claims and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from foltr_audit.defenses.metric_rr import MetricRR
from scipy import stats

from foltr_audit.errors import PluginError
from foltr_audit.privacy.events import MetricRandomization
from foltr_audit.privacy.randomized_response import RandomizedResponse
from foltr_audit.utils.arrays import Floats, Ints
from tests.fixtures import tiny

FALSE_ALARM = 1e-4
MAXRR = np.concatenate([[0.0], 1 / np.arange(1, 11)])


def reported(defense: MetricRR, truth: Ints, step: int = 0, values: Floats = MAXRR) -> Ints:
    """Reports of many clients with these true outcomes."""
    return defense.on_metric(truth, values, step, tiny.context(range(truth.size)))


# --- the law -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{"p": 0.25}, {"p": 0.5}, {"p": 0.9}, {"eps": 1.204}, {"p": 0.02}])
def test_reports_follow_the_channel(given: dict[str, float]) -> None:
    """By chi-square for every true value at once; a p that is a tenth off is caught by the same test."""
    defense, each = MetricRR(**given), 6000
    truth = np.repeat(np.arange(11), each)
    counts = np.zeros((11, 11))
    np.add.at(counts, (truth, reported(defense, truth, step=2)), 1)
    law = defense.channel(11)
    off = RandomizedResponse(defense.response(11).p * 0.9, 11).matrix
    assert stats.chisquare(counts.ravel(), each * law.ravel(), ddof=10).pvalue > FALSE_ALARM
    if defense.response(11).p > 0.1:  # of fewer truths a tenth is too little to see
        assert stats.chisquare(counts.ravel(), each * off.ravel(), ddof=10).pvalue < FALSE_ALARM
    lies = counts[~np.eye(11, dtype=np.bool_)]
    assert stats.chisquare(lies).pvalue > FALSE_ALARM


def test_steps_are_independent_and_clients_keep_theirs() -> None:
    defense, C = MetricRR(p=0.5), 20_000
    truth = np.full(C, 3)
    first, second = (reported(defense, truth, step) == 3 for step in (0, 1))
    table = [
        [np.sum(first & second), np.sum(first & ~second)],
        [np.sum(~first & second), np.sum(~first & ~second)],
    ]
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM
    assert not np.array_equal(first, second)
    some = np.array([9, 4, 700])
    alone = defense.on_metric(truth[some], MAXRR, 1, tiny.context(some))
    assert np.array_equal(alone, reported(defense, truth, 1)[some])


def test_numbers_of_a_step() -> None:
    """Number 2 step decides on the truth, the next one on the lie."""
    defense, truth = MetricRR(p=0.25), np.arange(11).repeat(20)
    here = tiny.context(range(truth.size))
    u = here.streams("metric-rr").uniform(10)
    for step in range(5):
        expected = []
        for true, (whether, which) in zip(truth, u[:, 2 * step : 2 * step + 2], strict=True):
            others = [value for value in range(11) if value != true]
            expected.append(true if whether < 0.25 else others[int(which * 10)])
        assert defense.on_metric(truth, MAXRR, step, here).tolist() == expected


def test_the_whole_truth() -> None:
    truth = np.arange(11)
    assert np.array_equal(reported(MetricRR(p=1), truth), truth)
    np.testing.assert_array_equal(MetricRR(p=1).channel(11), np.eye(11))
    empty = reported(MetricRR(p=0.5), np.empty(0, dtype=np.int64))
    assert empty.shape == (0,)


# --- claims, events, text ----------------------------------------------------------------------------


CLAIMS = [(MetricRR(p=0.25), 1.204), (MetricRR(p=0.9), 4.5), (MetricRR(eps=2.303), 2.303)]
CLAIMS += [(MetricRR(p=0.9, values=1024), math.log(0.9 * 1023 / 0.1))]
CLAIMS += [(MetricRR(p=0.01), math.log(0.99 / 10 / 0.01))]


@pytest.mark.parametrize(("defense", "epsilon"), CLAIMS)
def test_what_is_claimed_is_what_the_channel_gives(defense: MetricRR, epsilon: float) -> None:
    here = tiny.context([0])
    (claim,) = defense.claims(here)
    assert claim.epsilon == pytest.approx(epsilon, abs=5e-4)
    assert (claim,) == defense.claims_for(["individual"], "interaction", claim.epsilon)
    matrix = defense.channel(defense.values or 11)
    loss = np.log(matrix.max(axis=0) / matrix.min(axis=0)).max()
    assert loss == pytest.approx(claim.epsilon, rel=1e-9)
    assert defense.events(here) == (MetricRandomization(epsilon=claim.epsilon),)


def test_nothing_is_claimed_of_the_truth() -> None:
    assert MetricRR(p=1).claims(tiny.context([0])) == ()
    assert MetricRR(p=1).events(tiny.context([0])) == (MetricRandomization(epsilon=math.inf),)


def test_the_number_of_values_must_be_the_one_that_p_speaks_of() -> None:
    for call in (
        lambda: MetricRR(p=0.9).channel(1024),
        lambda: reported(MetricRR(p=0.9), np.zeros(3, dtype=np.int64), values=np.arange(1024.0)),
        lambda: MetricRR(p=0.9, values=1024).response(11),
    ):
        with pytest.raises(
            PluginError, match=r"^defense metric-rr: p=0.9 is for \d+ values, .* values=\d+, or eps"
        ):
            call()
    for values in (6, 11, 1024):
        assert RandomizedResponse.with_epsilon(2.0, values) == MetricRR(eps=2).response(values)


def test_texts() -> None:
    texts = ["metric-rr:p=0.25", "metric-rr:eps=1.2", "metric-rr:p=0.5,values=1024"]
    made = (MetricRR(p=0.25), MetricRR(eps=1.2), MetricRR(p=0.5, values=1024))
    assert [defense.text for defense in made] == texts
    assert MetricRR(p=0.25).response(11).text == MetricRR(p=0.25).text
