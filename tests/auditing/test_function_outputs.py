"""Calls of a function: what it is given, what it may return, and noise that repeats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import foltr_audit as fa
from foltr_audit.auditing import function_outputs
from foltr_audit.auditing.function_outputs import FunctionOutputs, Mechanism, call_function, repeated_noise
from foltr_audit.errors import UsageError
from foltr_audit.rng import Streams
from foltr_audit.utils.progress import SILENT

Vector = NDArray[np.float64]
Rng = np.random.Generator

ONE = (np.zeros(1), np.ones(1))


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
