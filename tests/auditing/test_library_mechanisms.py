"""Mechanisms of other libraries: intact ones stand, and with less noise than they claim they are refuted."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.report.documents import Row
from tests.auditing.test_function_audit import EPS, SURE

Rng = np.random.Generator
Release = Callable[[float, Rng], object]


@pytest.fixture(scope="module")
def diffprivlib() -> Iterator[Any]:
    """The mechanisms of diffprivlib alone: its models, which the package imports, need an older sklearn."""
    spec = importlib.util.find_spec("diffprivlib")
    if spec is None:
        pytest.skip("diffprivlib is not installed")
    package = ModuleType("diffprivlib")
    package.__path__ = list(spec.submodule_search_locations or ())
    sys.modules["diffprivlib"] = package
    yield importlib.import_module("diffprivlib.mechanisms")
    for name in [name for name in sys.modules if name.partition(".")[0] == "diffprivlib"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def opendp() -> Any:
    library = pytest.importorskip("opendp.prelude", reason="opendp is not installed")
    library.enable_features("contrib")
    return library


def audited(mechanism: Release, inputs: tuple[Any, Any] = (0.0, 1.0), **options: Any) -> Row:
    (row,) = fa.audit_mechanism(mechanism, inputs, **options).results
    return row


def stands(row: Row) -> bool:
    """Whether nothing was found, and trials came near the true epsilon."""
    return (
        row["verdict"] == "not refuted"
        and row["repeats"] is None
        and row["eps_lower"] > 0.6 * row["eps_claimed"]
    )


def with_seed(make: Callable[..., Any], **parameters: Any) -> Release:
    """A mechanism of diffprivlib that draws from our generator."""

    def release(value: float, rng: Rng) -> object:
        state = np.random.RandomState(rng.bit_generator)
        return make(**parameters, random_state=state).randomise(value)

    return release


# --- diffprivlib ------------------------------------------------------------------------------------

CLAIM: dict[str, Any] = {"eps": 1.0, "delta": 1e-5, "estimator": "gaussian-dp", "trials": 4000}
RELEASES: list[tuple[str, dict[str, Any], dict[str, Any] | None, tuple[Any, Any]]] = [
    ("Laplace", {"epsilon": EPS, "sensitivity": 1}, {"epsilon": EPS / 0.85}, (0.0, 1.0)),
    ("Geometric", {"epsilon": EPS, "sensitivity": 1}, {"epsilon": 2 * EPS}, (0, 1)),
    ("Binary", {"epsilon": EPS, "value0": "no", "value1": "yes"}, None, ("no", "yes")),
]
"""Mechanisms with parameters, what makes them weak, and two inputs. Whole numbers repeat without a seed."""


@pytest.mark.parametrize(("name", "intact", "weaker", "inputs"), RELEASES)
def test_mechanisms_of_diffprivlib(
    diffprivlib: Any, name: str, intact: Any, weaker: Any, inputs: tuple[Any, Any]
) -> None:
    make = getattr(diffprivlib, name)
    assert stands(audited(with_seed(make, **intact), inputs, eps=EPS, confidence=SURE, trials=4000))
    if weaker is not None:
        assert audited(with_seed(make, **intact | weaker), inputs, eps=EPS)["verdict"] == "refuted"


def test_a_fixed_random_state_of_diffprivlib_is_found(diffprivlib: Any) -> None:
    def release(value: float, rng: Rng) -> object:
        return diffprivlib.Laplace(epsilon=EPS, sensitivity=1, random_state=7).randomise(value)

    row = audited(release, eps=EPS, trials=1000)
    assert row["verdict"] == "refuted"
    assert row["repeats"] is not None


def test_gaussian_of_diffprivlib_at_its_delta(diffprivlib: Any) -> None:
    """It stands for inputs as near as its sensitivity says, and is refuted for inputs twice as far apart."""
    release = with_seed(diffprivlib.Gaussian, epsilon=1.0, delta=1e-5, sensitivity=1)
    assert audited(release, **CLAIM, confidence=SURE)["verdict"] == "not refuted"
    assert audited(release, (0.0, 2.0), **CLAIM)["verdict"] == "refuted"


# --- OpenDP: noise from the system, so that every run of a test has other numbers ---------------------


def measurement(opendp: Any, scale: float) -> Release:
    space = opendp.atom_domain(T=float, nan=False), opendp.absolute_distance(T=float)
    made = opendp.m.make_laplace(*space, scale=scale)
    return lambda value, rng: made(value)


def test_laplace_of_opendp(opendp: Any) -> None:
    report = fa.audit_mechanism(
        measurement(opendp, 1 / EPS), (0.0, 1.0), eps=EPS, confidence=SURE, trials=4000
    )
    assert stands(report.results[0])
    assert any("random numbers of its own" in row["warning"] for row in report.warnings)


def test_half_the_noise_of_opendp_is_refuted(opendp: Any) -> None:
    """The bound of a true 2.4 from 4,000 trials is 2.2 on average, ten standard deviations above 1.2."""
    row = audited(measurement(opendp, 0.5 / EPS), eps=EPS, trials=4000)
    assert row["verdict"] == "refuted"
    assert row["repeats"] is None


def test_a_vector_of_opendp(opendp: Any) -> None:
    space = opendp.vector_domain(opendp.atom_domain(T=float, nan=False)), opendp.l1_distance(T=float)
    made = opendp.m.make_laplace(*space, scale=1 / EPS)
    row = audited(
        lambda values, rng: np.array(made(values)),
        ([0.0, 0.0, 0.0], [0.0, 1.0, 0.0]),
        eps=EPS,
        confidence=SURE,
        trials=4000,
    )
    assert stands(row)
