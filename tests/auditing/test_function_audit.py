"""Audits of functions: outputs that are read, intact ones that stand, broken ones that are refuted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import foltr_audit as fa
from foltr_audit.auditing import function_outputs
from foltr_audit.auditing.function_outputs import FunctionOutputs, Mechanism, call_function, repeated_noise
from foltr_audit.errors import UsageError
from foltr_audit.privacy.gaussian_dp import gaussian_mu
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


def test_true_claims_are_refuted_no_more_often_than_the_level_says() -> None:
    """A right audit exceeds this number of false alarms less than once in a million times."""
    runs, n = 60, 100
    most = int(stats.binom.ppf(1 - 1e-6, runs, 0.05))
    alarms = sum(
        audited(laplace(1 / EPS), eps=EPS, trials=n, seed=seed)["verdict"] == "refuted"
        for seed in range(runs)
    )
    assert alarms <= most


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


Rng = np.random.Generator


def called(
    mechanism: Mechanism[Vector],
    inputs: tuple[Vector, Vector] = ONE,
    calls: int = 400,
    reload: Callable[[], Mechanism[Vector]] | None = None,
) -> FunctionOutputs:
    return call_function(mechanism, inputs, calls, Streams(1), SILENT, reload)


# --- what a function is given -----------------------------------------------------------------------


def test_every_trial_has_a_generator_of_its_own_and_the_input_as_it_was() -> None:
    seen: list[float] = []

    def spoil(x: Vector, rng: Rng) -> float:
        seen.append(float(x[0]))
        x += 99.0
        return float(rng.random())

    outputs = called(spoil)
    draws = outputs.numbers
    assert set(seen) == {0.0, 1.0}
    assert np.unique(draws).size == 800
    assert np.array_equal(ONE[0], np.zeros(1))
    mixed = np.array(seen[:800])
    assert 0.3 < np.mean(mixed[1:] != mixed[:-1]) < 0.7, "the two inputs come in random order"


def test_a_function_that_ignores_its_generator_is_noticed() -> None:
    own = np.random.default_rng(5)
    assert called(lambda x, rng: x + rng.normal()).repeatable
    assert not called(lambda x, rng: x + own.normal()).repeatable
    report = fa.audit_mechanism(lambda x, rng: x + own.normal(), ONE, trials=200)
    assert any("random numbers of its own" in row["warning"] for row in report.warnings)


# --- what it may return -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "kind", "numbers"),
    [
        (3, "numbers", [3.0]),
        (True, "numbers", [1.0]),
        (np.float32(0.5), "numbers", [0.5]),
        ([[1, 2], [3, 4]], "numbers", [1.0, 2.0, 3.0, 4.0]),
        ("four", "text", [4.0]),
        (b"\x00\x01", "bytes", [2.0]),
    ],
)
def test_numbers_text_and_bytes_are_read(output: object, kind: str, numbers: list[float]) -> None:
    outputs = called(lambda x, rng: output, calls=10)
    assert outputs.kind == kind
    assert np.array_equal(outputs.numbers[0], np.tile(numbers, (10, 1)))
    assert np.unique(outputs.codes).size == 1


def test_outputs_are_equal_only_bit_for_bit() -> None:
    outputs = called(lambda x, rng: -0.0 if x[0] else 0.0, calls=10)
    assert not set(outputs.codes[0]) & set(outputs.codes[1])


def fails(x: Vector, rng: Rng) -> float:
    raise ZeroDivisionError("division\nby zero")


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        (fails, r"raised ZeroDivisionError with input [01]: division by zero$"),
        (lambda x, rng: None, r"returned a NoneType: None; expected a number, an array"),
        (lambda x, rng: {"a": 1}, r"returned a dict"),
        (lambda x, rng: np.array([]), r"returned an empty array"),
        (lambda x, rng: [[1], [1, 2]], r"returned a list"),
        (lambda x, rng: 1j, r"returned a complex"),
        (lambda x, rng: np.zeros(1 + int(x[0])), r"an array of shape \(.,\), and an array of shape \(.,\)"),
        (lambda x, rng: "a" if x[0] else 1.0, r"a number|text"),
    ],
)
def test_what_cannot_be_audited_is_refused(mechanism: Mechanism[Vector], expected: str) -> None:
    with pytest.raises(UsageError, match=expected) as caught:
        called(mechanism)
    assert "\n" not in str(caught.value)


def test_outputs_that_do_not_fit_into_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_outputs, "MOST_NUMBERS", 1000)
    with pytest.raises(UsageError, match="expected 1000 in all at most"):
        called(lambda x, rng: np.zeros(50))


# --- noise that repeats -----------------------------------------------------------------------------


def from_seeds(size: int, rng: Rng) -> float:
    """Noise from one of a few seeds."""
    return float(np.random.default_rng(int(rng.integers(size))).laplace())


def beside(numbers: Vector, rng: Rng) -> Vector:
    """Numbers beside two others with fresh noise."""
    return np.concatenate([rng.normal(size=2), numbers])


REPEATING: dict[str, Mechanism[Vector]] = {
    "one seed": lambda x, rng: x + np.random.default_rng(1).laplace(size=x.shape),
    "two seeds": lambda x, rng: x + from_seeds(2, rng),
    "ten seeds": lambda x, rng: x + from_seeds(10, rng),
    "many seeds": lambda x, rng: x + from_seeds(3000, rng),
    "silent": lambda x, rng: x + rng.laplace() if x[0] else x - 0.5,
    "one coordinate": lambda x, rng: beside(x + np.random.default_rng(1).laplace(), rng),
    "ten seeds for a coordinate": lambda x, rng: beside(x + from_seeds(10, rng), rng),
    "one seed for a vector": lambda x, rng: np.tile(x, 5) + np.random.default_rng(1).normal(size=5),
}

INTACT: dict[str, Mechanism[Vector]] = {
    "fresh noise": lambda x, rng: x + rng.laplace(),
    "single precision": lambda x, rng: (x + rng.laplace()).astype(np.float32),
    "rounded": lambda x, rng: np.round(x + rng.laplace(scale=0.1), 2),
    "rounded to thirds": lambda x, rng: np.rint(3 * (x + rng.laplace(scale=0.05))) / 3,
    "clamped": lambda x, rng: np.clip(x + rng.laplace(), 0.3, 0.8),
    "whole": lambda x, rng: x + rng.geometric(0.5) - rng.geometric(0.5),
    "told once in a while": lambda x, rng: x + 0.25 if rng.random() < 0.1 else rng.laplace(size=1),
    "choice of a record": lambda x, rng: np.array([0.123, 0.456, 0.789, 0.987])[rng.integers(4)] + 0 * x,
    "bit": lambda x, rng: float(x[0] != (rng.random() < 0.3)),
    "some numbers never vary": lambda x, rng: np.concatenate([[0.5, 2.25], x + rng.laplace(size=1)]),
    "constant": lambda x, rng: np.array([0.5]),
}


@pytest.mark.parametrize("name", REPEATING)
def test_repeated_noise_is_found(name: str) -> None:
    report = fa.audit_mechanism(REPEATING[name], ONE, trials=2000)
    (row,) = report.results
    assert row["repeats"] is not None
    assert "bit for bit" in row["repeats"]
    assert not report.holds


@pytest.mark.parametrize("name", INTACT)
def test_outputs_that_repeat_by_their_nature_are_no_finding(name: str) -> None:
    assert repeated_noise(called(INTACT[name], calls=5000)) == ""


def test_no_mechanism_is_blamed_for_a_claim_beyond_what_the_trials_can_show() -> None:
    reused = REPEATING["one seed"]
    (row,) = fa.audit_mechanism(reused, ONE, eps=20.0, trials=500).results
    assert (row["verdict"], row["repeats"]) == ("not refuted", None)
    (row,) = fa.audit_mechanism(reused, ONE, eps=3.0, trials=500).results
    assert row["verdict"] == "refuted"
    assert row["repeats"] is not None


def seeded(seed: int | None, *, flips: float = 0.0) -> Callable[[], Mechanism[Vector]]:
    """Makes a function that sets up its own generator when it is loaded."""

    def load() -> Mechanism[Vector]:
        own = np.random.default_rng(seed)
        if flips:
            return lambda x, rng: x[0] != (own.random() < flips)
        return lambda x, rng: x + own.laplace()

    return load


@pytest.mark.parametrize(
    ("load", "found"),
    [
        (seeded(3), True),
        (seeded(None), False),
        (seeded(3, flips=0.3), True),
        (seeded(None, flips=0.3), False),
        (lambda: lambda x, rng: x + rng.laplace(), False),
    ],
    ids=["seed", "no seed", "seed, bits", "no seed, bits", "ours"],
)
def test_a_seed_that_is_set_when_the_function_is_loaded_is_found(
    load: Callable[[], Mechanism[Vector]], found: bool
) -> None:
    assert bool(repeated_noise(called(load(), reload=load))) == found


def test_outputs_that_hardly_vary_prove_no_seed() -> None:
    """256 bits of which one in 10,000 is 1 are equal by chance as well."""
    load = seeded(3, flips=1e-4)
    assert repeated_noise(called(load(), reload=load)) == ""
