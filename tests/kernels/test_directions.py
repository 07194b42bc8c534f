"""Unit vectors of streams: the numbers that they are made of, their moments, their places."""

from __future__ import annotations

import numpy as np
import pytest

from foltr_audit.kernels.central_learners import LANES, fill_directions
from foltr_audit.utils.arrays import Floats, Ints
from tests.fixtures.reference import normals

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
