"""Upper bounds by closed forms and pairs: units, views, lost shares, weights, rounds, samples, observers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import integrate, stats

from foltr_audit.core.defense_chain import DefenseChain, parse_chain, published_chain
from foltr_audit.errors import UsageError
from foltr_audit.privacy.accounting import AccountingContext, SumMembers, UpperBound, upper_bound
from foltr_audit.privacy.accounting.sum_members import exposure
from foltr_audit.privacy.accounting.walk import ChainSummary
from foltr_audit.privacy.events import (
    UNITS,
    ClickRandomization,
    FloatRounding,
    GridRounding,
    KeyShares,
    MessageAggregation,
    NoiseAddition,
    NormBound,
    NormScaling,
    OpaqueChange,
    PrivacyEvent,
    in_format,
)
from foltr_audit.privacy.loss.losses import Norms
from foltr_audit.privacy.noise import GammaShare, Gaussian, Skellam
from foltr_audit.privacy.observer_views import VIEWS, sees_lists, without_lists
from tests.fixtures.tiny import accounting, context

N, P = 1000, 46
SHARES = NoiseAddition(law=GammaShare(n=N, scale=2.5))
WHOLE = NoiseAddition(law=GammaShare(n=1, scale=2.5))
L1, L2 = NormBound(norm=1.5, ord=1, of="model"), NormBound(norm=1.5, ord=2, of="model")


def at(**values: Any) -> AccountingContext:
    return accounting(**{"view": "aggregate", "unit": "client", "parameters": P, "shares": N, **values})


def bound(*events: PrivacyEvent, **values: Any) -> UpperBound:
    number_format = values.pop("number_format", None)
    return upper_bound(in_format(events, number_format) if number_format else events, at(**values))


def epsilon(*events: PrivacyEvent, **values: Any) -> float:
    return bound(*events, **values).epsilon


# --- Laplace noise ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clip", "parameters", "expected"), [(1.5, 46, 8.139), (3, 46, 16.28), (1.5, 136, 13.99), (3, 136, 27.99)]
)
def test_the_published_chain(clip: float, parameters: int, expected: float) -> None:
    """sqrt(P) times the claimed 1.2, or twice that with the clip of both programs; see `docs/maths.md`."""
    texts = (f"clip:norm={clip}", published_chain(1.2)[1])
    sent = DefenseChain(parse_chain(texts)).events(context([0], P=parameters, shares=N))
    assert upper_bound(sent, at(parameters=parameters)).epsilon == math.inf, "float32 spoils the sum"
    events = [event for event in sent if not isinstance(event, FloatRounding)]
    found = upper_bound(events, at(parameters=parameters))
    assert found.epsilon == pytest.approx(expected, abs=5e-3)
    assert found.epsilon == pytest.approx(2 * clip * math.sqrt(parameters) * 1.2 / 3)
    assert f"sqrt({parameters})" in found.how
    for view in ("individual", "colluding"):
        assert upper_bound(events, at(view=view, parameters=parameters)).epsilon == math.inf


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("unit", UNITS)
def test_laplace_noise_on_an_l1_ball_holds_its_claim_in_every_view(view: str, unit: str) -> None:
    """But not of a client whose lists are seen: they tell what it asked."""
    expected = math.inf if sees_lists(view) and unit == "client" else 1.2
    assert epsilon(L1, WHOLE, view=view, unit=unit) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("arriving", "one", "spread"),
    [(900, 1.19, 2.1), (700, 1.82, 10.7), (600, 2.49, 27.8), (500, math.inf, math.inf)],
)
@pytest.mark.parametrize("n", [1000, 10])
def test_shares_that_never_arrived(n: int, arriving: int, one: float, spread: float) -> None:
    """For a claim of 1.0: the whole shift on one coordinate, or spread over 46; see `docs/maths.md`."""
    events = NormBound(norm=0.5, ord=1, of="update"), NoiseAddition(law=GammaShare(n=n, scale=1.0))
    there = {"shares": n, "arriving": arriving * n // 1000}
    assert epsilon(*events, parameters=1, **there) == pytest.approx(one, abs=0.005)
    assert epsilon(*events, parameters=46, **there) == pytest.approx(spread, abs=0.1)
    assert epsilon(*events, parameters=46, shares=n) == pytest.approx(1.0)


@pytest.mark.parametrize("shape", [0.6, 0.8])
def test_no_split_of_a_distance_costs_more_than_the_even_one(shape: float) -> None:
    law = GammaShare(n=10, scale=1.0, count=round(10 * shape))
    allowed = epsilon(
        NormBound(norm=1.0, ord=1, of="update"),
        NoiseAddition(law=GammaShare(n=10, scale=1.0)),
        parameters=5,
        shares=10,
        arriving=law.count,
    )
    splits = np.random.default_rng(1).dirichlet(np.full(5, 0.7), size=2000) * 2.0
    costs = law.worst_loss(splits).sum(axis=1)
    assert costs.max() <= allowed
    assert float(law.worst_loss(2.0)) < costs.max() < allowed
    assert 5 * float(law.worst_loss(0.4)) == pytest.approx(allowed)


def test_the_smaller_of_several_norms_counts() -> None:
    inside = NormBound(norm=2.0, ord=2, of="model"), NormBound(norm=0.1, ord=math.inf, of="model")
    assert epsilon(*inside, WHOLE) == pytest.approx(2 * 46 * 0.1 / 2.5)
    assert epsilon(*inside, WHOLE, parameters=4) == pytest.approx(2 * 4 * 0.1 / 2.5)
    assert epsilon(inside[0], WHOLE, parameters=1) == pytest.approx(4 / 2.5)


def test_a_sum_with_unequal_weights() -> None:
    """Shares of weighted clients sum to at least the Laplace noise of the lightest one."""
    assert epsilon(L1, SHARES, largest_weight=3.0) == pytest.approx(3.6)
    assert epsilon(L1, WHOLE, largest_weight=3.0) == pytest.approx(1.2), "its own noise has its own weight"
    gaussian = NoiseAddition(law=Gaussian(sigma=0.1))
    light, heavy = (epsilon(L2, gaussian, largest_weight=w, delta=1e-5) for w in (1.0, 3.0))
    direct = epsilon(NormBound(norm=4.5, ord=2, of="model"), gaussian, delta=1e-5)
    assert light < heavy == pytest.approx(direct)


# --- views, and what happens after the noise --------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
def test_a_secure_sum_hides_single_messages_unless_the_others_talk(view: str) -> None:
    expected = math.inf if without_lists(view) == "colluding" else 1.2
    found = epsilon(L1, SHARES, MessageAggregation(at_least=N), view=view, unit="interaction")
    assert found == pytest.approx(expected)


def test_a_secure_sum_of_few() -> None:
    chain = (L1, SHARES, MessageAggregation(at_least=700))
    fewest = epsilon(L1, SHARES, arriving=700)
    assert fewest > 1.2
    assert epsilon(*chain) == pytest.approx(fewest), "the fewest that it sums"
    assert epsilon(*chain, arriving=900) == pytest.approx(epsilon(L1, SHARES, arriving=900))
    assert epsilon(L1, SHARES, MessageAggregation(at_least=400)) == math.inf


@pytest.mark.parametrize("after", [OpaqueChange(mechanism="toy"), GridRounding(step=0.1), L2])
def test_what_happens_to_each_message_after_its_noise(after: PrivacyEvent) -> None:
    """It costs nothing of a client's own noise, and all of what only the sum of the noise hides."""
    assert epsilon(L1, WHOLE, after) == pytest.approx(1.2)
    assert epsilon(L1, SHARES, after) == math.inf
    assert "the sum does not hold" in bound(L1, SHARES, after).how


def test_what_happens_to_a_secure_sum() -> None:
    assert epsilon(
        L1, SHARES, MessageAggregation(at_least=N), OpaqueChange(mechanism="toy")
    ) == pytest.approx(1.2)
    assert epsilon(L1, SHARES, MessageAggregation(at_least=N), GridRounding(step=2.0**-16)) == math.inf


def test_the_best_of_several_proofs() -> None:
    more = NoiseAddition(law=GammaShare(n=1, scale=10.0))
    assert epsilon(L1, WHOLE, more) == epsilon(L1, more, WHOLE) == pytest.approx(0.3)
    clicks = ClickRandomization(epsilon=0.5)
    assert epsilon(clicks, L1, WHOLE, unit="click") == pytest.approx(0.5)
    assert epsilon(clicks, L1, WHOLE, unit="interaction") == pytest.approx(1.2)


def test_nothing_is_proven_of_noise_on_unbounded_messages() -> None:
    assert "bounds" in bound(WHOLE).how
    assert "randomises" in bound(L1).how
    assert "toy" in bound(L1, OpaqueChange(mechanism="toy"), WHOLE).how
    sometimes = replace(L1, always=False)
    assert "without a step" in bound(sometimes, WHOLE).how
    assert epsilon(replace(sometimes, of="update"), WHOLE) == pytest.approx(1.2), "no step is the update 0"
    assert all(math.isinf(epsilon(*chain)) for chain in ([WHOLE], [L1], [sometimes, WHOLE]))


# --- Gaussian noise ---------------------------------------------------------------------------------------


def hockey_stick(mu: float, eps: float) -> float:
    """delta of N(0, 1) against N(mu, 1), by integration."""

    def gained(x: float) -> float:
        return max(0.0, stats.norm.pdf(x, mu) - math.exp(eps) * stats.norm.pdf(x))

    start = eps / mu + mu / 2
    return float(integrate.quad(gained, start, start + 40, limit=200)[0])


@pytest.mark.parametrize(("sigma", "rounds"), [(1.0, 1), (4.0, 1), (4.0, 9), (30.0, 100)])
def test_gaussian_noise(sigma: float, rounds: int) -> None:
    found = bound(L2, NoiseAddition(law=Gaussian(sigma=sigma)), view="individual", rounds=rounds, delta=1e-5)
    assert hockey_stick(3 / sigma * math.sqrt(rounds), found.epsilon) == pytest.approx(1e-5, rel=1e-6)
    assert found.delta == 1e-5


def test_gaussian_noise_of_a_sum() -> None:
    local, own = (NoiseAddition(law=Gaussian(sigma=sigma)) for sigma in (2.0, 2.0 * math.sqrt(400)))
    assert epsilon(L2, local, arriving=400, delta=1e-6) == pytest.approx(
        epsilon(L2, own, view="individual", delta=1e-6)
    )
    for view in ("individual", "colluding"):
        assert epsilon(L2, local, view=view, delta=1e-6) > 5
    assert epsilon(L2, local) == math.inf
    assert bound(L2, local).how == "Gaussian noise has no epsilon at delta 0"


# --- clicks, units, rounds, samples -----------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    ("unit", "clicks"), [("click", 1), ("interaction", 10), ("query", 40), ("client", math.inf)]
)
def test_randomised_clicks(view: str, unit: str, clicks: float) -> None:
    found = epsilon(ClickRandomization.kept_with(0.9), view=view, unit=unit, interactions=4)
    assert found == pytest.approx(clicks * math.log(9)), "lists follow from the randomised clicks alone"


def test_rounds_add_up_for_what_every_round_may_touch() -> None:
    for unit, times in [("click", 1), ("interaction", 1), ("query", 25), ("client", 25)]:
        found = bound(L1, WHOLE, unit=unit, rounds=25)
        assert found.epsilon == pytest.approx(times * 1.2)
        assert ("25 rounds compose" if times > 1 else "part of one round") in found.how
    lifetime = [upper_bound([L1, WHOLE], at(rounds=count)).epsilon for count in (1, 10, 100)]
    assert lifetime == pytest.approx([1.2, 12, 120])
    assert upper_bound([L1, WHOLE], at(delta=1e-6, rounds=100)).epsilon < 100


def test_a_delta_helps_or_is_left_out() -> None:
    one = bound(L1, WHOLE, view="individual", delta=0.01)
    assert one.epsilon == pytest.approx(1.2 + 2 * math.log(0.99))
    assert one.delta == 0.01
    query = {"unit": "query", "rounds": 100, "delta": 1e-6}
    clicks = bound(ClickRandomization.kept_with(0.55), **query)
    assert clicks.epsilon < 0.5 * epsilon(ClickRandomization.kept_with(0.55), unit="query", rounds=100)
    spared = bound(NormBound(norm=0.5, ord=1, of="update"), SHARES, arriving=700, parameters=1, delta=1e-300)
    assert spared.delta == 0.0


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_a_secret_sample(share: float) -> None:
    """Exact for the pair in which the replaced client becomes like all others."""
    chain, there = (L1, WHOLE), {"view": "individual", "sampled": share}
    assert epsilon(*chain, **there) == pytest.approx(1.2), "the server picks who takes part"
    found = epsilon(*chain, cohorts="secret", **there)
    x = np.linspace(-60, 60, 100_001)
    one, other = stats.laplace.pdf(x, 1.5, 2.5), stats.laplace.pdf(x, -1.5, 2.5)
    exact = np.log(share * one + (1 - share) * other) - np.log(other)
    assert found == pytest.approx(np.abs(exact).max(), rel=1e-9)
    assert epsilon(*chain, cohorts="secret", rounds=7, **there) == pytest.approx(7 * found)
    hidden = {"sampled": share, "cohorts": "secret"}
    assert epsilon(*chain, view="colluding", **hidden) == pytest.approx(1.2), "the others tell"
    assert epsilon(*chain, largest_weight=2.0, **hidden) == pytest.approx(1.2)
    clicks = ClickRandomization(epsilon=1.0)
    assert epsilon(clicks, unit="click", **hidden) == pytest.approx(1.0), "amplification needs clients alike"
    seen = epsilon(*chain, view="individual+lists", unit="interaction", **hidden)
    assert seen == pytest.approx(1.2), "lists tell who took part"


def test_a_secret_sample_of_several_rounds_meets_a_click_at_last() -> None:
    """A click is learnt from when its client is sampled: within 20 rounds of a tenth with probability .88.

    Then one round is as if nobody had been sampled away: at least ln(1 + .88 (e^eps - 1)) = 1.11 is lost.
    """
    share, rounds = 0.1, 20
    there = {"view": "individual", "sampled": share, "cohorts": "secret"}
    used = 1 - (1 - share) ** rounds
    lost = math.log1p(used * math.expm1(1.2))
    for unit in ("click", "interaction"):
        assert epsilon(L1, WHOLE, unit=unit, **there) == pytest.approx(math.log1p(share * math.expm1(1.2)))
        assert lost <= epsilon(L1, WHOLE, unit=unit, rounds=rounds, **there) <= 1.2 * (1 + 1e-9)
    query = epsilon(L1, WHOLE, unit="query", rounds=rounds, **there)
    assert query == pytest.approx(rounds * math.log1p(share * math.expm1(1.2)))


@pytest.mark.parametrize("rounds", [1, 20])
def test_a_secret_sample_under_gaussian_noise(rounds: int) -> None:
    hidden = {"view": "individual", "sampled": 0.05, "cohorts": "secret", "rounds": rounds, "delta": 1e-5}
    found = epsilon(L2, NoiseAddition(law=Gaussian(sigma=3.0)), **hidden)
    assert found < 0.7 * epsilon(L2, NoiseAddition(law=Gaussian(sigma=3.0)), **{**hidden, "cohorts": "any"})
    if rounds == 1:
        x = np.linspace(-40, 60, 2_000_001)
        mixed = 0.05 * stats.norm.pdf(x, 1.0) + 0.95 * stats.norm.pdf(x)
        delta = integrate.trapezoid(np.maximum(0, mixed - math.exp(found) * stats.norm.pdf(x)), x)
        assert delta == pytest.approx(1e-5, rel=1e-4), "exact for this pair"


# --- order relations --------------------------------------------------------------------------------------

SIZES = st.floats(0.05, 20.0)


@given(
    norm=SIZES,
    order=st.sampled_from([1, 2, math.inf]),
    scale=SIZES,
    factor=st.floats(1.0, 3.0),
    rounds=st.integers(1, 5),
    arriving=st.integers(51, 100),
    gaussian=st.booleans(),
)
def test_more_noise_less_movement_fewer_rounds_and_more_messages_never_cost_more(
    norm: float, order: float, scale: float, factor: float, rounds: int, arriving: int, gaussian: bool
) -> None:
    def cost(norm: float, scale: float, rounds: int, arriving: int) -> float:
        law = Gaussian(sigma=scale / 10) if gaussian else GammaShare(n=100, scale=scale)
        there = {"shares": 100, "arriving": arriving, "rounds": rounds, "delta": 1e-6 if gaussian else 0.0}
        ball = NormBound(norm=norm, ord=order, of="update")
        return epsilon(ball, NoiseAddition(law=law), parameters=7, **there)

    base = cost(norm, scale, rounds, arriving)
    more = 1 + 1e-9
    assert cost(norm, scale * factor, rounds, arriving) <= base * more
    assert cost(norm * factor, scale, rounds, arriving) * more >= base
    assert cost(norm, scale, rounds + 1, arriving) * more >= base
    assert cost(norm, scale, rounds, arriving - 1) * more >= base


# --- refusals ---------------------------------------------------------------------------------------------


ZERO = ("parameters", "shares", "arriving", "interactions", "rounds", "sampled")
OTHER: dict[str, list[Any]] = {
    "view": ["agregate"],
    "unit": ["list"],
    "arriving": [N + 1],
    "largest_weight": [0.5, math.nan],
}
OTHER |= {"delta": [1.0, math.nan], "colluders": [-1, N]}


WRONG = [*((name, 0) for name in ZERO), *((name, one) for name in OTHER for one in OTHER[name])]


@pytest.mark.parametrize(("name", "wrong"), WRONG)
def test_situations_that_cannot_be_meant(name: str, wrong: Any) -> None:
    with pytest.raises(UsageError, match=rf"accounting: |--{name}: "):
        at(**{name: wrong})


Vectors = NDArray[np.float64]
Accountant = Callable[[NormBound, GammaShare, int, int], float]

CLIENTS = 20


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
        members=SumMembers(cohort=CLIENTS, fewest=arriving),
    )
    return upper_bound([ball, NoiseAddition(law=law)], there).epsilon


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
    arriving=st.integers(1, CLIENTS),
    shares=st.sampled_from([1, CLIENTS]),
)
def test_no_pair_costs_more_than_the_bound(
    norm: float, order: float, scale: float, parameters: int, arriving: int, shares: int
) -> None:
    ball = NormBound(norm=norm, ord=order, of="model")
    assert not exceeded(proven, ball, GammaShare(n=shares, scale=scale), parameters, arriving)


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


# --- shown lists ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["individual", "aggregate", "colluding"])
@pytest.mark.parametrize("unit", ["click", "interaction", "query"])
def test_noise_on_messages_does_not_hide_what_lists_tell(view: str, unit: str) -> None:
    """The list of a second interaction follows from the clicks of the first, without noise."""
    seen = f"{view}+lists"
    alone = epsilon(L1, WHOLE, view=view, unit=unit, interactions=4)
    assert alone == pytest.approx(1.2)
    assert epsilon(L1, WHOLE, view=seen, unit=unit, interactions=1) == alone
    assert epsilon(L1, WHOLE, view=seen, unit=unit, interactions=4) == math.inf
    assert "--rank-with global" in bound(L1, WHOLE, view=seen, unit=unit, interactions=2).how
    assert epsilon(L1, WHOLE, view=seen, unit=unit, interactions=4, ranked_with="global") == alone


def test_randomised_clicks_hide_what_lists_tell() -> None:
    """Whatever noise is beside them, and however many lists there are."""
    clicks = ClickRandomization(epsilon=0.5)
    for events in ([clicks], [clicks, L1, WHOLE]):
        found = epsilon(*events, view="individual+lists", unit="interaction", interactions=4)
        assert found == pytest.approx(5.0)
    assert epsilon(clicks, L1, WHOLE, unit="interaction", interactions=4) == pytest.approx(1.2)


# --- some of the other clients tell -----------------------------------------------------------------------


def test_clients_that_collude_open_messages_with_their_key_shares() -> None:
    """In a sparse graph a client's neighbours may all collude, though most others do not."""
    neighbours, needed, told, delta = 22, 12, 24, 1e-5
    laplace = (L1, WHOLE)

    def proven(count: int, **more: object) -> UpperBound:
        shares = KeyShares(neighbours=neighbours, needed=needed)
        secure = MessageAggregation(at_least=26, key_shares=shares)
        return bound(*laplace, secure, view="colluding", shares=50, colluders=count, delta=delta, **more)

    exposed = 1.0 - sum(
        math.comb(told, k) * math.comb(49 - told, neighbours - k) / math.comb(49, neighbours)
        for k in range(needed)
    )
    assert exposed > 0.3
    assert "12 of a client's 22 neighbours can open its message" in proven(told).how
    alone = bound(*laplace, view="individual", shares=50, delta=delta)
    assert proven(told).epsilon == pytest.approx(alone.epsilon)
    few = proven(needed - 1, arriving=50)
    others = bound(*laplace, view="colluding", shares=50, colluders=needed - 1, delta=delta)
    assert few.epsilon == others.epsilon < alone.epsilon


def _falls_apart(telling: Sequence[int], missing: Sequence[int], n: int, reach: int) -> bool:
    """Whether the messages of the others, on a circle of n, are no longer tied together by masks."""
    gone = {*telling, *missing}

    def groups(left: list[int]) -> int:
        found, count = set[int](), 0
        for start in left:
            if start not in found:
                count, edge = count + 1, [start]
                while edge:
                    one = edge.pop()
                    if one not in found:
                        found.add(one)
                        edge += [two for two in left if min((one - two) % n, (two - one) % n) <= reach]
        return count

    aborts = groups([place for place in range(n) if place not in {*missing}]) > 1
    return not aborts and groups([place for place in range(n) if place not in gone]) > 1


@pytest.mark.parametrize(("neighbours", "telling", "missing"), [(2, 2, 0), (2, 3, 1), (4, 4, 0), (4, 4, 2)])
def test_clients_that_collude_cut_the_circle(neighbours: int, telling: int, missing: int) -> None:
    """By all choices of places: their masks are known, so that a part of the sum stands by itself."""
    n, cut, several = 9, 0, 0
    for gone in combinations(range(n), telling + missing):
        for told in combinations(gone, telling):
            rest = [place for place in gone if place not in told]
            cut += _falls_apart(told, rest, n, neighbours // 2)
            several += 1
    shares = KeyShares(neighbours=neighbours, needed=n)
    bounded = exposure(shares, clients=n, missing=missing, colluders=telling, honest=5)
    assert 0 < cut / several <= bounded
    everybody = KeyShares(neighbours=n - 1, needed=n)
    assert exposure(everybody, clients=n, missing=missing, colluders=telling, honest=5) == 0


def test_a_small_chance_to_open_a_message_counts_to_delta() -> None:
    shares = KeyShares(neighbours=30, needed=15)
    sparse, whole = MessageAggregation(at_least=2, key_shares=shares), MessageAggregation(at_least=2)
    here = {"view": "colluding", "shares": 1000, "colluders": 60, "unit": "client"}
    exposed = sum(math.comb(60, k) * math.comb(939, 30 - k) / math.comb(999, 30) for k in range(15, 31)) * (
        1000 - 60
    )
    assert 0 < exposed < 1e-5
    found = bound(L1, WHOLE, sparse, **here, delta=2e-5, arriving=1000)
    less = bound(L1, WHOLE, whole, **here, delta=2e-5 - exposed, arriving=1000)
    assert found.epsilon == pytest.approx(less.epsilon, rel=1e-9)
    assert found.delta == 2e-5
    pure = bound(L1, WHOLE, sparse, **here, arriving=1000)
    assert "neighbours" in pure.how or pure.epsilon == pytest.approx(1.2)


@pytest.mark.parametrize("view", ["aggregate", "colluding"])
def test_a_sum_of_one_message_shows_its_last_bits(view: str) -> None:
    one = {"number_format": "float64", "view": view, "arriving": 1}
    one["colluders"] = 0 if view == "colluding" else None
    assert epsilon(L1, WHOLE, **one) == math.inf
    assert epsilon(L1, WHOLE, **{**one, "arriving": 2}) == pytest.approx(1.2)


def test_the_more_clients_collude_the_less_noise_is_left() -> None:
    """k of n that tell what they sent are as good as k that never sent; all of them leave one share."""
    for k in (0, 100, 300):
        told = bound(L1, SHARES, view="colluding", colluders=k)
        assert told.epsilon == pytest.approx(epsilon(L1, SHARES, arriving=N - k))
        assert f"{N - k} messages of honest clients" in told.how
    assert epsilon(L1, SHARES, view="colluding", colluders=500) == math.inf
    everybody = epsilon(L1, WHOLE, view="colluding", delta=1e-5)
    assert everybody == epsilon(L1, WHOLE, view="colluding", colluders=N - 1, delta=1e-5)
    assert everybody == epsilon(L1, WHOLE, view="individual", delta=1e-5)
    secure = (L1, SHARES, MessageAggregation(at_least=900))
    found = epsilon(*secure, view="colluding", colluders=100, arriving=950)
    assert found == pytest.approx(epsilon(L1, SHARES, arriving=850))
