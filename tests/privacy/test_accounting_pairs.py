"""No pair of messages in the ball costs more than the bound; an accountant with the wrong norm is caught."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from foltr_audit.privacy.accounting import AccountingContext, SumMembers, UpperBound, upper_bound
from foltr_audit.privacy.accounting.walk import ChainSummary
from foltr_audit.privacy.events import GridRounding, NoiseAddition, NormBound, NormScaling, PrivacyEvent
from foltr_audit.privacy.loss.losses import Norms
from foltr_audit.privacy.noise import GammaShare, Skellam

Vectors = NDArray[np.float64]
Accountant = Callable[[NormBound, GammaShare, int, int], float]

N = 20


def in_ball(
    rng: np.random.Generator, size: int, norm: float, order: float
) -> Iterator[tuple[Vectors, Vectors]]:
    """Pairs of vectors in a ball: poles of an axis, poles of the diagonal, and random ones."""
    pole, diagonal = np.eye(size)[0], np.ones(size)
    for direction in (pole, diagonal, rng.laplace(size=size), rng.normal(size=size) ** 3):
        end = norm * direction / np.linalg.norm(direction, order)
        yield end, -end
        inside = rng.normal(size=size)
        yield end, rng.random() * norm * inside / np.linalg.norm(inside, order)


def proven(ball: NormBound, law: GammaShare, parameters: int, arriving: int) -> float:
    there = AccountingContext(
        view="aggregate",
        unit="client",
        parameters=parameters,
        members=SumMembers(cohort=N, fewest=arriving),
    )
    return upper_bound([ball, NoiseAddition(law=law)], there).epsilon


def with_l2(ball: NormBound, law: GammaShare, parameters: int, arriving: int) -> float:
    """A wrong accountant: it divides the L2 distance by the scale of Laplace noise."""
    apart = Norms.of_ball(2 * ball.norm, ball.ord).tightened(parameters)
    return proven(NormBound(norm=apart.l2 / 2, ord=1, of=ball.of), law, parameters, arriving)


def on_one_coordinate(ball: NormBound, law: GammaShare, parameters: int, arriving: int) -> float:
    """A wrong accountant: it takes the loss of missing shares for linear."""
    apart = Norms.of_ball(2 * ball.norm, ball.ord).tightened(parameters)
    return float(law.summed(arriving).worst_loss(apart.l1))


def exceeded(
    accountant: Accountant, ball: NormBound, law: GammaShare, parameters: int, arriving: int
) -> bool:
    """Whether the exact pure loss of some pair is above what an accountant says."""
    rng = np.random.default_rng(parameters)
    said = accountant(ball, law, parameters, arriving) * (1 + 1e-9)
    summed = law.summed(arriving)
    pairs = in_ball(rng, parameters, ball.norm, ball.ord)
    return any(float(summed.worst_loss(one - other).sum()) > said for one, other in pairs)


@given(
    norm=st.floats(0.01, 50.0),
    order=st.sampled_from([1, 2, math.inf]),
    scale=st.floats(0.05, 50.0),
    parameters=st.integers(1, 40),
    arriving=st.integers(1, N),
    shares=st.sampled_from([1, N]),
)
def test_no_pair_costs_more_than_the_bound(
    norm: float, order: float, scale: float, parameters: int, arriving: int, shares: int
) -> None:
    ball = NormBound(norm=norm, ord=order, of="model")
    assert not exceeded(proven, ball, GammaShare(n=shares, scale=scale), parameters, arriving)


def test_that_test_can_fail() -> None:
    ball, law = NormBound(norm=1.5, ord=2, of="model"), GammaShare(n=N, scale=2.5)
    assert not exceeded(proven, ball, law, 46, N)
    assert exceeded(with_l2, ball, law, 46, N)
    small = NormBound(norm=1.5, ord=1, of="model")
    assert not exceeded(proven, small, law, 46, 15)
    assert exceeded(on_one_coordinate, small, law, 46, 15)


# --- norms ------------------------------------------------------------------------------------------------


@given(
    values=st.lists(st.integers(-1000, 1000), min_size=1, max_size=30),
    known=st.lists(st.sampled_from([1, 2, math.inf]), min_size=1, unique=True),
)
def test_norms_that_are_known_bound_the_others(values: list[int], known: list[float]) -> None:
    vector = 0.1 * np.array(values)
    norms = Norms()
    for order in known:
        norms = norms.within(Norms.of_ball(float(np.linalg.norm(vector, order)), order))
    tight = norms.tightened(vector.size)
    for found, order in ((tight.l1, 1), (tight.l2, 2), (tight.linf, math.inf)):
        assert found >= np.linalg.norm(vector, order) * (1 - 1e-12)
        assert math.isfinite(found)
    assert tight.l1 <= norms.l1
    assert tight.l2 <= norms.l2
    assert tight.linf <= norms.linf


# --- what happens before the noise ------------------------------------------------------------------------

NOISE = NoiseAddition(law=GammaShare(n=1, scale=1.0))


def apart(*events: PrivacyEvent, parameters: int = 4) -> Norms:
    return ChainSummary([*events, NOISE], parameters).noises[0].apart


def test_later_balls_and_resizing() -> None:
    model, update = NormBound(norm=2.0, ord=1, of="model"), NormBound(norm=1.0, ord=2, of="update")
    assert apart(model).l1 == 4.0
    assert apart(model, update) == Norms(4.0, 2.0, 2.0), "scaling an update may leave the model's ball"
    assert apart(update, model).l1 == 4.0
    assert apart(model, NormBound(norm=0.1, ord=math.inf, of="model")).l1 == 0.8
    assert apart(model, NormScaling(factor=3.0, of="model")).l1 == 12.0
    assert not apart(model, NormScaling(factor=1.0, of="update")).known
    assert apart(update, NormScaling(factor=0.5, of="update")).l2 == 1.0


def test_rounding_moves_two_messages_apart() -> None:
    ball = NormBound(norm=1.0, ord=1, of="update")
    assert apart(ball, GridRounding(step=0.25)) == Norms(2.0 + 4 * 0.5, 2.0 + 2 * 0.5, 2.5)
    assert apart(ball, GridRounding(step=0.25), GridRounding(step=0.125)) == apart(
        ball, GridRounding(step=0.25)
    )
    assert apart(ball, GridRounding(step=0.25), GridRounding(step=0.5)).linf == 3.5
    rounding = np.array([0.1, 0.9])
    assert abs(math.floor(rounding[0]) - math.ceil(1 + rounding[1])) > np.ptp(rounding) + 1, "at random"


def test_rounding_to_the_nearest_moves_half_as_far() -> None:
    nearest = GridRounding(step=0.25, nearest=True)
    assert apart(NormBound(norm=1.0, ord=1, of="update"), nearest) == Norms(3.0, 2.5, 2.25)


def test_grids_are_kept_by_noise_on_them() -> None:
    ball, noise = NormBound(norm=1.0, ord=2, of="model"), NoiseAddition(law=Skellam(sigma=2.0, step=0.125))

    def cost(*events: PrivacyEvent, view: str = "aggregate", weight: float = 1.0) -> UpperBound:
        there = AccountingContext(
            view=view,
            unit="client",
            parameters=4,
            members=SumMembers(cohort=9, largest_weight=weight),
            delta=1e-5,
        )
        return upper_bound([ball, *events], there)

    on, off = GridRounding(step=0.125), GridRounding(step=0.1)
    base, alone = cost(on, noise).epsilon, cost(on, noise, view="individual").epsilon
    assert base < alone < math.inf
    assert cost(on, noise, GridRounding(step=2.0**-16)).epsilon == base
    assert cost(on, noise, off).epsilon == alone
    assert cost(on, noise, weight=2.0).epsilon == alone
    assert base < cost(GridRounding(step=0.25), noise).epsilon < math.inf, "a multiple of the grid"
    for before in ([off], []):
        assert cost(*before, noise).epsilon == math.inf
        assert "rounded to that grid" in cost(*before, noise).how
