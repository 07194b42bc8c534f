"""Audits of functions whose true epsilon is known: intact ones stand, broken ones are refuted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import foltr_audit as fa
from foltr_audit.auditing.estimators import TrialScores
from foltr_audit.auditing.estimators.repeated_trials import clopper_pearson
from foltr_audit.auditing.function_audit import output_scores
from foltr_audit.auditing.function_outputs import Mechanism, call_function
from foltr_audit.errors import UsageError
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon, gaussian_mu
from foltr_audit.report.documents import Row
from foltr_audit.rng import Streams
from foltr_audit.utils.progress import SILENT

Vector = NDArray[np.float64]
Release = Mechanism[Vector]

EPS = 1.2
SURE = 1 - 1e-7
"""Confidence at which an intact mechanism is refuted once in ten million audits."""

ONE = (np.zeros(1), np.ones(1))
TEN = (np.zeros(10), np.eye(10)[3])


def laplace(scale: float) -> Release:
    """The Laplace mechanism, with a loss of 1 / scale at a distance of 1."""
    return lambda x, rng: x + rng.laplace(scale=scale, size=x.shape)


def gaussian(sigma: float) -> Release:
    return lambda x, rng: x + rng.normal(scale=sigma, size=x.shape)


def randomised_response(eps: float) -> Callable[[str, np.random.Generator], str]:
    def answer(truth: str, rng: np.random.Generator) -> str:
        lie = rng.random() < 1 / (1 + math.exp(eps))
        return {"yes": "no", "no": "yes"}[truth] if lie else truth

    return answer


def audited(mechanism: Release, inputs: tuple[Vector, Vector] = ONE, **options: Any) -> Row:
    (row,) = fa.audit_mechanism(mechanism, inputs, **options).results
    return row


# --- intact mechanisms, and the same with too little noise ------------------------------------------


@pytest.mark.parametrize("inputs", [ONE, TEN], ids=["one number", "ten numbers"])
def test_laplace_noise_stands_and_15_percent_less_is_refuted(inputs: tuple[Vector, Vector]) -> None:
    """The bound of a true 1.41 is 1.32 on average; at 39 of 40 seeds 10,000 trials refute 1.2."""
    intact = audited(laplace(1 / EPS), inputs, eps=EPS, confidence=SURE, trials=4000)
    weak = audited(laplace(0.85 / EPS), inputs, eps=EPS)
    assert intact["verdict"] == "not refuted"
    assert 0.6 * EPS < intact["eps_lower"] <= EPS
    assert weak["verdict"] == "refuted"
    assert weak["eps_lower"] > EPS
    assert (weak["confidence"], weak["trials"]) == (0.95, 10_000)
    assert intact["repeats"] is weak["repeats"] is None


def test_randomised_answers_in_words_show_most_of_their_epsilon() -> None:
    (row,) = fa.audit_mechanism(
        randomised_response(2.0), ("no", "yes"), eps=2.0, confidence=SURE, trials=4000
    ).results
    assert 0.7 * 2.0 < row["eps_lower"] <= 2.0
    (row,) = fa.audit_mechanism(randomised_response(2.0), ("no", "yes"), eps=1.6, trials=4000).results
    assert row["verdict"] == "refuted"


def test_gaussian_noise_at_a_delta_stands_and_30_percent_less_is_refuted() -> None:
    """The bound on a true mu of .38 is .36 on average, six standard deviations above the claimed .27."""
    sigma, delta = 1 / gaussian_mu(1.0, 1e-5), 1e-5
    claim: dict[str, Any] = {"eps": 1.0, "delta": delta, "estimator": "gaussian-dp"}
    intact = audited(gaussian(sigma), **claim, confidence=SURE, trials=4000)
    weak = audited(gaussian(0.7 * sigma), **claim)
    assert (intact["verdict"], weak["verdict"]) == ("not refuted", "refuted")
    assert "normal" in weak["assumes"]


def test_a_small_sigma_is_refuted_without_an_assumption() -> None:
    row = audited(gaussian(0.5), eps=1.0, delta=1e-5)
    assert row["verdict"] == "refuted"
    assert row["assumes"] == ""
    assert row["eps_lower"] <= gaussian_epsilon(2.0, 1e-5)


def test_an_estimator_for_normal_noise_refuses_other_noise() -> None:
    with pytest.raises(UsageError, match="these outputs are not normal"):
        audited(laplace(1.0), eps=1.0, delta=1e-5, estimator="gaussian-dp", trials=4000)


# --- what tells outputs apart -----------------------------------------------------------------------


def wider(x: Vector, rng: np.random.Generator) -> Vector:
    """Noise whose size shows the input: all of its epsilon is in the tails."""
    return rng.normal(scale=1.0 + x, size=x.shape)


def same_noise(x: Vector, rng: np.random.Generator) -> Vector:
    """One number for all coordinates: differences of coordinates are exact."""
    return x + rng.laplace(scale=1 / EPS)


def ring(x: Vector, rng: np.random.Generator) -> Vector:
    """Two points at a distance that shows the input, in a random direction: no linear score sees it."""
    angle = rng.random() * 2 * math.pi
    radius = 3.0 * (1.0 - float(x[0])) + rng.normal(scale=0.3)
    return radius * np.array([math.cos(angle), math.sin(angle)])


def missing(x: Vector, rng: np.random.Generator) -> Vector:
    """NaN shows the input."""
    noise = rng.laplace(size=x.shape)
    return np.where(rng.random() < 0.3 * x, np.nan, noise)


@pytest.mark.parametrize(
    ("mechanism", "scores"),
    [
        (wider, {"quadratic"}),
        (same_noise, {"discriminant"}),
        (ring, {"quadratic", "neighbours"}),
        (missing, {"neighbours", "not finite"}),
    ],
)
def test_each_kind_of_leak_is_found(mechanism: Release, scores: set[str]) -> None:
    row = audited(mechanism, TEN if mechanism is same_noise else ONE, eps=EPS, trials=2000)
    assert row["verdict"] == "refuted"
    assert row["score"] in scores


def test_the_length_of_a_text_is_seen() -> None:
    def release(x: int, rng: np.random.Generator) -> bytes:
        return rng.bytes(8 + x + int(rng.integers(2)))

    (row,) = fa.audit_mechanism(release, (0, 1), eps=1.0, trials=2000).results
    assert row["verdict"] == "refuted"


# --- false alarms -----------------------------------------------------------------------------------


def cheating_bound(seed: int, n: int) -> float:
    """A wrong audit: the score is learned from the very trials that it is evaluated on."""
    outputs = call_function(laplace(1 / EPS), ONE, n, Streams(seed), SILENT)
    zero, one = output_scores(outputs, n)["frequency"]
    trials = TrialScores(choose_zero=zero, choose_one=one, zero=zero, one=one)
    return clopper_pearson(trials, delta=0.0, confidence=0.95, rng=np.random.default_rng(0)).epsilon


def test_true_claims_are_refuted_no_more_often_than_the_level_says() -> None:
    """A right audit exceeds this number of false alarms less than once in a million times."""
    runs, n = 60, 100
    most = int(stats.binom.ppf(1 - 1e-6, runs, 0.05))
    alarms = sum(
        audited(laplace(1 / EPS), eps=EPS, trials=n, seed=seed)["verdict"] == "refuted"
        for seed in range(runs)
    )
    assert alarms <= most
    assert sum(cheating_bound(seed, n) > EPS for seed in range(most + 1)) > most


# --- the same seed, and what is refused -------------------------------------------------------------


def test_the_same_seed_gives_the_same_report_and_another_one_another() -> None:
    first, again, other = (
        fa.audit_mechanism(laplace(1.0), TEN, trials=500, seed=seed).json() for seed in (1, 1, 2)
    )
    assert first == again != other


def test_without_a_claim_the_bound_alone_is_reported() -> None:
    report = fa.audit_mechanism(laplace(0.5), ONE, trials=1000)
    (row,) = report.results
    assert row["eps_claimed"] == math.inf
    assert 1.0 < row["eps_lower"] <= 2.0
    assert report.holds


@pytest.mark.parametrize(
    ("eps", "line"), [(8.0, "not refuted by these trials; another pair may be worse"), (None, "no claim")]
)
def test_a_verdict_is_said_once(eps: float | None, line: str) -> None:
    assert line in fa.audit_mechanism(laplace(1.0), ONE, eps=eps, trials=200).summary(full=True).splitlines()


def test_so_few_trials_that_they_cannot_refute_a_claim_are_named() -> None:
    report = fa.audit_mechanism(laplace(0.1), ONE, eps=10.0, trials=200)
    assert report.holds
    assert any("cannot refute a claim of 10" in row["warning"] for row in report.warnings)


@pytest.mark.parametrize("estimator", ["one-run", "clopper-pearson", "betting", "gaussian-dp"])
@pytest.mark.parametrize(
    ("mechanism", "options", "reveals"),
    [
        (gaussian(1e-6), {"delta": 1e-3}, True),
        (gaussian(2.0), {"delta": 1e-3}, False),
        (gaussian(3.73), {"delta": 0.5}, False),
        (gaussian(2.0), {"delta": 0.999}, False),
    ],
)
def test_outputs_are_said_to_reveal_their_input_only_where_all_do(
    mechanism: Release, options: dict[str, Any], reveals: bool, estimator: str
) -> None:
    report = fa.audit_mechanism(mechanism, ONE, estimator=estimator, **{"trials": 300, **options})
    (row,) = report.results
    said = [each["warning"] for each in report.warnings if each["code"] == "FA304"]
    assert any("reveals its input" in text for text in said) == reveals
    assert any("no epsilon above 0" in text for text in said) == (row["eps_ceiling"] == 0)


NUMBERS = (("eps", 0.0), ("eps", math.nan), ("delta", 1.0), ("trials", 10), ("confidence", 1.0))
IMPOSSIBLE: list[tuple[str, Any, str]] = [(name, value, name) for name, value in NUMBERS]
IMPOSSIBLE += [("estimator", "clopper", "did you mean 'clopper-pearson'")]
IMPOSSIBLE += [("estimator", "gaussian-dp", "expected a delta above 0")]


@pytest.mark.parametrize(("name", "value", "expected"), IMPOSSIBLE)
def test_impossible_settings_are_one_line(name: str, value: Any, expected: str) -> None:
    with pytest.raises(UsageError, match=expected) as caught:
        audited(laplace(1.0), **{name: value})
    assert "\n" not in str(caught.value)
