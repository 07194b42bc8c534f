"""The balls, cascade clicks, Gamma shares and directions against their plain forms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from foltr_audit.kernels.cascade import cascade_clicks
from foltr_audit.kernels.central_learners import LANES, fill_directions
from foltr_audit.kernels.messages import moved_rows, projected
from foltr_audit.kernels.metrics import discounts
from foltr_audit.kernels.noise import gamma_differences
from foltr_audit.kernels.philox import uniforms
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats, Ints
from tests.fixtures.reference import normals

# --- balls -------------------------------------------------------------------------------------------


def scaled(models: Floats, norm: float, order: int) -> Floats:
    """Models scaled by min(1, norm / their norm), one after the other, with correctly rounded sums."""
    rows = []
    for model in models.tolist():
        size = math.hypot(*model) if order == 2 else math.fsum(abs(x) for x in model)
        rows.append([x * (norm / size) for x in model] if size > norm else model)
    return np.array(rows)


@pytest.mark.parametrize("order", [1, 2])
@settings(max_examples=60, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([1e-300, 1e-160, 1e-3, 1.0, 1e6, 1e150, 1e200, 1e300]),
    ratio=st.floats(0.01, 20.0),
    parameters=st.sampled_from([1, 2, 7, 46, 136]),
)
def test_models_are_scaled_into_the_ball(
    order: int, seed: int, size: float, ratio: float, parameters: int
) -> None:
    models = size * np.random.default_rng(seed).normal(size=(5, parameters))
    norm, kept = size * ratio, models.copy()
    inside = projected(models, norm, order)
    np.testing.assert_array_equal(models, kept)
    np.testing.assert_allclose(inside, scaled(models, norm, order), rtol=1e-13, atol=0)


def test_a_model_has_moved_by_its_farthest_number_or_where_it_is_no_number() -> None:
    rng = np.random.default_rng(2)
    before = rng.normal(size=(400, 7)) * 10.0 ** rng.integers(-9, 9, size=(400, 1))
    after = before + before * rng.normal(size=(400, 7)) * 10.0 ** rng.integers(-12, -6, size=(400, 1))
    before[:3], after[1], before[5, 2] = [[0.0] * 7, [0.0] * 7, [np.inf] * 7], 1e-300, np.inf
    after[0], after[2], after[3, 5], before[4, 1] = 0.0, np.inf, np.nan, np.nan
    with np.errstate(invalid="ignore"):
        farthest = np.abs(after - before).max(axis=1)
    still = np.isfinite(farthest) & (farthest <= 1e-9 * np.abs(before).max(axis=1))
    assert 50 < still.sum() < 350
    assert still[:6].tolist() == [True, False, False, False, False, False]
    np.testing.assert_array_equal(moved_rows(before, after), ~still)


@pytest.mark.parametrize("order", [1, 2])
def test_no_model_is_left_outside_of_the_ball(order: int) -> None:
    """Whatever numbers four coordinates have: none, infinite, or so large that their norm is."""
    values = [math.nan, math.inf, -math.inf, 1e308, -1.7e308, 1.0, 0.0, 5e-324]
    models = np.array(list(product(values, repeat=4)))
    for norm in (1e-12, 1.5, 1e300):
        ratios = np.abs(projected(models, norm, order)) / norm
        sizes = ratios.sum(axis=1) if order == 1 else np.sqrt((ratios**2).sum(axis=1))
        assert (sizes <= 1.0 + 1e-12).all()
        assert not sizes[~np.isfinite(models).all(axis=1)].any(), "the centre"


def test_what_lies_inside_is_left_alone() -> None:
    models = np.array([[0.0, 0.0], [3.0, 4.0], [-3.0, 4.0], [3.0, 4.000001]])
    same = projected(models, 5.0, 2)
    assert np.array_equal(same[:3], models[:3])
    assert not np.array_equal(same[3], models[3])
    assert np.array_equal(projected(models, math.inf, 2), models)
    assert projected(np.empty((0, 3)), 1.0, 2).shape == (0, 3)


# --- cascade clicks ----------------------------------------------------------------------------------


@settings(max_examples=60, derandomize=True)
@given(data=st.data(), seed=st.integers(0, 10**6), k=st.integers(1, 12))
def test_cascade_clicks_one_rank_after_the_other(data: st.DataObject, seed: int, k: int) -> None:
    chance = st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0])
    click = data.draw(st.lists(chance, min_size=3, max_size=3))
    stop = data.draw(st.lists(chance, min_size=3, max_size=3))
    rng = np.random.default_rng(seed)
    grades = rng.integers(0, 3, size=(20, k))
    grades[np.arange(k) >= rng.integers(0, k + 1, size=(20, 1))] = -1
    u = rng.random((20, 2 * k))
    found = cascade_clicks(grades, u, np.array(click), np.array(stop))
    for row in range(20):
        reading, expected = True, []
        for i, grade in enumerate(grades[row].tolist()):
            clicked = reading and grade >= 0 and u[row, 2 * i] < click[grade]
            if clicked and u[row, 2 * i + 1] < stop[grade]:
                reading = False
            expected.append(clicked)
        assert found[row].tolist() == expected


# --- Gamma shares ------------------------------------------------------------------------------------


def gamma_by_hand(shape: float, first: list[float], others: Iterator[list[float]]) -> float:
    """Best's algorithm RGS as Devroye 1986, section IX.3.6, prints it, from a first pair and others."""
    z = 0.07 + 0.75 * math.sqrt(1 - shape)
    b = 1 + math.exp(-z) * shape / z
    v, w = first
    while True:
        v *= b
        if v <= 1:
            x = z * v ** (1 / shape)
            if w <= (2 - x) / (2 + x) or w <= math.exp(-x):
                return float(x)
        else:
            x = -math.log(z * (b - v) / shape)
            y = x / z
            if w * (shape + y - shape * y) < 1 or w <= y ** (shape - 1):
                return x
        v, w = next(others)


BEHIND = 2**32  # the first number of a stream for tries that are not the first


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
@pytest.mark.parametrize("size", [1, 2, 46, 300])
def test_gamma_differences_draw_by_draw(n: int, size: int) -> None:
    streams = Streams(4).clients("noise", 7, np.array([0, 3, 1000]))
    of = streams.clients, 7, streams.purpose_code, np.uint64(streams.key)
    found = gamma_differences(1.0 / n, size, *of)
    pairs, more = uniforms(0, 4 * size, *of), uniforms(BEHIND, 4 * size + 400, *of)
    for row, own, after in zip(found, pairs.reshape(3, -1, 2), more.reshape(3, -1, 2), strict=True):
        others = iter(after.tolist())
        drawn = [gamma_by_hand(1.0 / n, pair, others) for pair in own.tolist()]
        assert size < 300 or n > 10 or after[0].tolist() != next(others), "some first tries fail"
        np.testing.assert_allclose(row, np.subtract(drawn[::2], drawn[1::2]), rtol=1e-11, atol=1e-280)


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_gamma_differences_add_up_to_scipys_laplace_law(n: int) -> None:
    streams = Streams(4).clients("noise", 7, np.arange(n))
    of = streams.clients, streams.purpose_code, np.uint64(streams.key)
    rounds = [gamma_differences(1.0 / n, 2000, of[0], round_, *of[1:]) for round_ in range(10)]
    assert kstest(np.concatenate([shares.sum(axis=0) for shares in rounds]), "laplace").pvalue > 1e-4
    other = [1.1 * shares.sum(axis=0) for shares in rounds]
    if n > 2:  # with too few summands
        other = [shares[: 7 * n // 10].sum(axis=0) for shares in rounds]
    assert kstest(np.concatenate(other), "laplace").pvalue < 1e-4


def test_looking_for_machine_code_does_not_prepare_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    discounts(1)
    context = discounts.targetctx  # type: ignore[attr-defined]
    monkeypatch.setattr(type(context), "refresh", lambda _: pytest.fail("registers all that can be compiled"))
    stored = discounts._cache  # type: ignore[attr-defined]
    assert stored.load_overload((numba.types.boolean,), context) is None


PURPOSE, KEY = 0xC0FFEE, np.uint64(0x0123456789ABCDEF)


def directions(where: Ints, dimension: int) -> Floats:
    """Unit vectors of (3, m) rounds, clients and places; (m, dimension)."""
    found = np.empty((where.shape[1], dimension))
    out = np.empty((dimension + dimension % 2, LANES))
    for u, (round_, client, place) in zip(found, where.T, strict=True):
        fill_directions(out, place, 1, dimension, client, round_, PURPOSE, KEY)
        u[:] = out[:dimension, 0]
    return found


def everywhere(count: int) -> Ints:
    """Some rounds, clients and places, also large ones."""
    rng = np.random.default_rng(2)
    return rng.integers(0, [[2**21], [2**22], [1000]], size=(3, count))


@pytest.mark.parametrize("dimension", [1, 2, 3, 46, 47])
def test_they_are_normal_numbers_over_their_length(dimension: int) -> None:
    where = everywhere(64)
    width = dimension + dimension % 2
    for u, (round_, client, place) in zip(directions(where, dimension), where.T, strict=True):
        n = normals((place + 1) * width, np.array([client]), round_, PURPOSE, KEY)[0]
        n = n[place * width : place * width + dimension]
        np.testing.assert_allclose(u, n / np.sqrt((n * n).sum()), rtol=0, atol=4e-15)
        assert abs((u * u).sum() - 1) < 1e-14


@pytest.mark.parametrize("count", [2, 33, LANES])
def test_a_direction_does_not_depend_on_its_lane(count: int) -> None:
    some, lanes = np.empty((46, LANES)), np.arange(count)
    fill_directions(some, 7, count, 46, 5, 3, PURPOSE, KEY)
    where = np.stack([np.full(count, 3), np.full(count, 5), 7 + lanes])
    assert some[:, :count].T.tobytes() == directions(where, 46).tobytes()


def fourth_moments(u: Floats) -> tuple[float, float]:
    """How many standard errors E[u_1^4] and E[u_1^2 u_2^2] are from those of the uniform law on a sphere."""
    d = u.shape[1]
    deviations = []
    for values, expected in (
        (u[:, 0] ** 4, 3 / (d * (d + 2))),
        (u[:, 0] ** 2 * u[:, 1] ** 2, 1 / (d * (d + 2))),
    ):
        deviations.append(float((values.mean() - expected) / (values.std() / np.sqrt(values.size))))
    return deviations[0], deviations[1]


@pytest.mark.parametrize("dimension", [2, 3, 8])
def test_they_are_uniform_on_the_sphere(dimension: int) -> None:
    """First, second and fourth moments within 4.5 standard errors; the rays to points of a cube fail."""
    u = directions(everywhere(19_200), dimension)
    limit = 4.5 / np.sqrt(len(u))
    assert np.abs(u.mean(axis=0)).max() < limit
    assert np.abs(u.T @ u / len(u) - np.eye(dimension) / dimension).max() < limit
    assert np.abs(fourth_moments(u)).max() < 4.5
    cube = np.random.default_rng(4).uniform(-1, 1, size=u.shape)
    cube /= np.sqrt((cube**2).sum(axis=1, keepdims=True))
    assert np.abs(fourth_moments(cube)).max() > 9
