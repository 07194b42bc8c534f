"""FOLtR-ES: values and outcomes, perturbations from seeds, the gradient on a quadratic, and its kernel."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.errors import UsageError
from foltr_audit.kernels.evolution import seed_normals, weighted_normals
from foltr_audit.simulation.learners.foltr_es import FOLtRES, adam
from foltr_audit.utils.arrays import Floats
from tests.fixtures.reference import numba_threads, philox_words

Seeds = NDArray[np.uint64]


def seeds_of(count: int, seed: int = 0) -> Seeds:
    return np.random.default_rng(seed).integers(0, 2**64, size=count, dtype=np.uint64)


# --- metrics -------------------------------------------------------------------------------------------


def test_maxrr() -> None:
    learner = FOLtRES()
    assert learner.values.tolist() == [0.0, *(1 / rank for rank in range(1, 11))]
    clicks = np.array(list(product((False, True), repeat=10)))
    outcomes = learner.outcomes(clicks)
    for row, outcome in zip(clicks.tolist(), outcomes.tolist(), strict=True):
        assert outcome == (row.index(True) + 1 if any(row) else 0)
    expected = [max((1 / (r + 1) for r, clicked in enumerate(row) if clicked), default=0) for row in clicks]
    np.testing.assert_array_equal(learner.values[outcomes], expected)


def test_dcg() -> None:
    learner = FOLtRES(metric="dcg")
    clicks = np.array(list(product((False, True), repeat=10)))
    outcomes = learner.outcomes(clicks)
    assert sorted(outcomes.tolist()) == list(range(1024))
    assert learner.outcomes(np.eye(10, dtype=np.bool_)).tolist() == [2**place for place in range(10)]
    expected = [sum(1 / math.log2(r + 2) for r in range(10) if row[r]) for row in clicks]
    np.testing.assert_allclose(learner.values[outcomes], expected, rtol=1e-14)
    assert np.diff(np.sort(learner.values)).min() > 1e-9  # a value names its clicks


@pytest.mark.parametrize("metric", ["maxrr", "dcg"])
def test_shapes_of_outcomes(metric: str) -> None:
    learner = FOLtRES(metric=metric)
    clicks = np.random.default_rng(1).random((3, 4, 10)) < 0.2
    nested = learner.outcomes(clicks)
    assert nested.shape == (3, 4)
    assert nested.dtype == np.int64
    assert nested.ravel().tolist() == [int(learner.outcomes(row)) for row in clicks.reshape(-1, 10)]
    short = clicks[..., :4]
    padded = np.concatenate([short, np.zeros((3, 4, 6), dtype=np.bool_)], axis=2)
    assert np.array_equal(learner.outcomes(short), learner.outcomes(padded))
    assert learner.outcomes(np.zeros((2, 0), dtype=np.bool_)).tolist() == [0, 0]


# --- perturbations -------------------------------------------------------------------------------------


def normals_of_key(key: int, size: int) -> list[float]:
    """Box-Muller pairs from the blocks of counters (i, 0, 0, 0) under a key."""
    found: list[float] = []
    for block in range((size + 1) // 2):
        a, b, c, d = philox_words((block, 0, 0, 0), key)
        u, v = (((high << 32 | low) >> 12) + 0.5 for high, low in ((a, b), (c, d)))
        length, angle = math.sqrt(-2 * math.log(u / 2**52)), 2 * math.pi * v / 2**52
        found += [length * math.cos(angle), length * math.sin(angle)]
    return found[:size]


def test_a_perturbation_is_a_function_of_its_seed() -> None:
    """The documented one: normal numbers of the Philox stream (0, 0, 0) whose key is the seed."""
    learner, seeds = FOLtRES(sigma=0.25), seeds_of(40)
    found = learner.perturbations(seeds, 7)
    assert found.shape == (40, 7)
    for row, seed in zip(found, seeds.tolist(), strict=True):
        np.testing.assert_allclose(row, 0.25 * np.array(normals_of_key(seed, 7)), rtol=1e-12)
    order = np.random.default_rng(2).permutation(40)
    assert np.array_equal(learner.perturbations(seeds[order], 7), found[order])
    assert np.array_equal(learner.perturbations(seeds[3:4], 7)[0], found[3])
    assert np.array_equal(learner.perturbations(seeds, 6), found[:, :6])
    assert np.array_equal(learner.perturbations(np.repeat(seeds[:1], 3), 7), np.repeat(found[:1], 3, axis=0))
    assert learner.perturbations(seeds[:0], 7).shape == (0, 7)


# --- the gradient --------------------------------------------------------------------------------------

P = 5
HERE = np.array([0.3, -0.2, 0.5, 0.0, 1.0])
TOP = np.array([1.0, 1.0, -1.0, 0.5, 0.0])
BEND = np.array([1.0, 2.0, 0.5, 3.0, 1.5])


def quadratic(models: Floats) -> Floats:
    """`4 - sum_j bend_j (x_j - top_j)^2` of each model (C, P)."""
    return np.asarray(4 - (BEND * (models - TOP) ** 2).sum(axis=1))


def messages_of(learner: FOLtRES, seeds: Seeds) -> Floats:
    """What clients whose metric is the quadratic send."""
    moves = learner.perturbations(seeds, P)
    sides = (1, -1) if learner.antithetic else (1,)
    return np.column_stack([quadratic(HERE + side * moves) for side in sides])


@pytest.mark.parametrize("antithetic", [True, False])
@pytest.mark.parametrize("size", [1, 6, 7])
def test_the_gradient_by_its_formula(antithetic: bool, size: int) -> None:
    learner = FOLtRES(sigma=0.02, antithetic=antithetic)
    for C in (1, 31, 32, 33, 100):
        seeds, messages = seeds_of(C, C), np.random.default_rng(C).random((C, 2 if antithetic else 1))
        messages[::5] = messages[::5, :1] if antithetic else 0.0
        moves = learner.perturbations(seeds, size)
        weights = messages[:, 0] - messages[:, 1] if antithetic else messages[:, 0]
        expected = sum(move * weight for move, weight in zip(moves, weights, strict=True))
        expected = expected / ((2 if antithetic else 1) * C * 0.02**2)
        found = learner.gradient(seeds, messages, size)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_sums_and_normals_have_the_same_bytes_on_any_threads() -> None:
    seeds, weights = seeds_of(700), np.random.default_rng(1).normal(size=700)
    found = []
    for threads in (1, 2):
        with numba_threads(threads):
            found.append((weighted_normals(seeds, weights, 46).tobytes(), seed_normals(seeds, 46).tobytes()))
    assert found[0] == found[1]


def test_one_step_of_each_optimiser() -> None:
    seeds = seeds_of(20)
    for name in ("adam", "sgd"):
        learner = FOLtRES(optimiser=name, learning_rate=0.5)
        gradient = learner.gradient(seeds, messages_of(learner, seeds), P)
        model, state = learner.update(HERE, learner.first_state(P), seeds, messages_of(learner, seeds))
        step = np.sign(gradient) if name == "adam" else gradient
        np.testing.assert_allclose(model - HERE, 0.5 * step, rtol=1e-6)
        kept, same = learner.update(model, state, seeds[:0], np.empty((0, 2)))
        assert np.array_equal(kept, model)
        assert np.array_equal(same, state)
        with pytest.raises(UsageError, match=rf"^{name}: its state has shape \(5,\); expected \("):
            learner.update(model, np.zeros(5), seeds, messages_of(learner, seeds))


# --- Adam: the textbook recursion by another route ------------------------------------------------------

STEPS, SIZE = 400, 3


def gradients() -> Floats:
    """Gradients of very different size, with zeros among them."""
    rng = np.random.default_rng(7)
    found: Floats = rng.normal(size=(STEPS, SIZE)) * np.array([1e-6, 1.0, 300.0])
    found[rng.random(found.shape) < 0.2] = 0.0
    return found


def textbook(rate: float, start: float, column: list[float], corrected: bool = True) -> list[float]:
    """Algorithm 1 of Kingma & Ba 2015 for one parameter, ascending, to 50 digits."""
    with localcontext() as context:
        context.prec = 50
        theta, m, v = Decimal(start), Decimal(0), Decimal(0)
        beta1, beta2 = Decimal("0.9"), Decimal("0.999")
        path = []
        for t, g in enumerate(map(Decimal, column), start=1):
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g * g
            mean, square = (m / (1 - beta1**t), v / (1 - beta2**t)) if corrected else (m, v)
            theta += Decimal(rate) * mean / (square.sqrt() + Decimal("1e-8"))
            path.append(float(theta))
        return path


def test_adam_follows_the_textbook() -> None:
    start = np.array([0.5, -2.0, 1e-3])
    parameters, state, found = start, np.zeros(1 + 2 * SIZE), []
    for gradient in gradients():
        before = parameters.copy(), state.copy()
        after = adam(parameters, state, gradient, 0.01)
        assert all(np.array_equal(*each) for each in zip(before, (parameters, state), strict=True))
        parameters, state = after
        found.append(parameters)
    columns = gradients().T.tolist()
    for corrected in (True, False):
        expected = np.array([textbook(0.01, s, g, corrected) for s, g in zip(start, columns, strict=True)]).T
        close = np.allclose(found, expected, rtol=1e-11, atol=1e-14)
        assert close == corrected  # without the correction of the bias it is another path


# --- the plug-in -----------------------------------------------------------------------------------------


def test_what_it_tells_and_what_is_published() -> None:
    learner = FOLtRES()
    assert learner.facts == {
        "sigma": 0.01, "metric": "maxrr", "antithetic": True, "learning_rate": 0.001, "optimiser": "adam",
    }  # fmt: skip
    assert learner.published_chain(1.2, None) == parse_chain(["metric-rr:eps=1.2"])
    assert learner.published_chain(10, None) == parse_chain(["metric-rr:eps=10"])
    assert learner.published_chain(math.inf, None) == ()
    assert learner.why_not("neural:hidden=10") is None
    for eps in (0.0, -1.0, math.nan):
        with pytest.raises(UsageError, match=r"^eps: \S+; expected a number above 0$"):
            learner.published_chain(eps, None)
    with pytest.raises(UsageError, match=r"^sensitivity: 3: learner foltr-es "):
        learner.published_chain(1.2, 3.0)
