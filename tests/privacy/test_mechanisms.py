"""Noise mechanisms: scale, shares, claims and refusals; their events as texts of a header."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Defense
from foltr_audit.errors import UsageError
from foltr_audit.privacy.events import (
    ClickRandomization,
    CorrelatedNoise,
    GridRounding,
    KeyShares,
    MessageAggregation,
    MetricRandomization,
    NoiseAddition,
    NormBound,
    NormScaling,
    OpaqueChange,
    PrivacyEvent,
    UnknownNoise,
    event_text,
    parse_event,
)
from foltr_audit.privacy.gaussian_dp import gaussian_delta
from foltr_audit.privacy.noise import DiscreteGaussian, GammaShare, Gaussian, Skellam
from foltr_audit.privacy.observer_views import VIEWS
from foltr_audit.simulation.recorder import trace_header
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures import tiny
from tests.fixtures.tiny import ToyMessage

FALSE_ALARM = 1e-4
LOCAL = ["laplace:eps=1.2,sensitivity=3", "gaussian:delta=1e-05,eps=1.2,sensitivity=3", "gaussian:sigma=0.7"]
SHARED = [
    "gamma-laplace:eps=1.2,sensitivity=3",
    "gaussian-shares:delta=1e-05,eps=1.2,sensitivity=3",
    "gaussian-shares:sigma=0.7",
    "discrete-gaussian:sigma=3,step=0.05",
    "skellam:sigma=3,step=0.05",
]
GRID = SHARED[3:]


def made(text: str) -> Defense:
    (defense,) = parse_chain([text])
    assert "message" in defense.stages
    return defense


def noise(text: str, n: int, senders: int, size: int, seed: int = 1) -> Floats:
    """Noise of some of n clients, (senders, size)."""
    defense, here = made(text), tiny.context(range(senders), P=size, shares=n, seed=seed)
    return defense.on_message(np.zeros((senders, size)), here)


def scale_p(x: Floats, law: object) -> float:
    """Two-sided test of the scale: exact for normal and Laplace noise, else by the normal limit of x^2."""
    if isinstance(law, GammaShare) and law.count == law.n:
        chi, statistic = stats.chi2(2 * x.size), 2 * float(np.abs(x).sum()) / law.scale
    elif isinstance(law, GammaShare):
        variance = law.variance
        spread = math.sqrt((2 + 3 / law.shape) * variance**2 / x.size)
        return float(2 * stats.norm.sf(abs(float(np.mean(x**2)) - variance) / spread))
    else:
        assert isinstance(law, Gaussian | Skellam | DiscreteGaussian)
        chi, statistic = stats.chi2(x.size), float(np.sum(x**2)) / law.variance
    return float(2 * min(chi.cdf(statistic), chi.sf(statistic)))


# --- the law of what is added --------------------------------------------------------------------------


@pytest.mark.parametrize("text", LOCAL)
def test_each_message_carries_the_whole_local_noise(text: str) -> None:
    x = noise(text, 50, 40, 500)
    law = made(text).law(tiny.context([0], shares=50))
    assert law is not None
    assert scale_p(x, law) > FALSE_ALARM
    for wrong in (0.9, 1.1):
        assert scale_p(wrong * x, law) < FALSE_ALARM
    named = stats.laplace(scale=law.scale) if isinstance(law, GammaShare) else stats.norm(scale=law.scale)
    assert stats.kstest(x.ravel(), named.cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("text", SHARED)
@pytest.mark.parametrize(("n", "arrived"), [(1, 1), (7, 7), (200, 200), (10, 4)])
def test_shares_sum_to_the_law_that_they_declare(text: str, n: int, arrived: int) -> None:
    """For everybody, and for fewer survivors; noise that is 10 % off either way is caught."""
    x = noise(text, n, arrived, 20_000).sum(axis=0)
    share = made(text).law(tiny.context([0], shares=n))
    assert share is not None
    law = share.summed(arrived)
    assert law.variance == pytest.approx(arrived * share.variance, rel=1e-12)
    assert scale_p(x, law) > FALSE_ALARM
    for wrong in (0.9, 1.1):
        assert scale_p(wrong * x, law) < FALSE_ALARM
    assert abs(x.mean()) < 5 * math.sqrt(law.variance / x.size)


@pytest.mark.parametrize("text", GRID)
def test_messages_on_a_grid_show_whole_steps_only(text: str) -> None:
    models = np.random.default_rng(0).normal(size=(5, 30))
    sent = made(text).on_message(models, tiny.context(range(5), P=30, shares=9))
    steps = np.rint(sent / 0.05)
    assert np.array_equal(sent, 0.05 * steps), "no bit beside the whole number"
    drawn = made(text).on_message(np.zeros((5, 30)), tiny.context(range(5), P=30, shares=9))
    assert np.all(np.abs(sent - drawn - models) <= 0.025 * (1 + 1e-9)), "rounded to the nearest"
    shifted = made(text).on_message(models + 0.05 * 3, tiny.context(range(5), P=30, shares=9))
    np.testing.assert_allclose(shifted - sent, 0.15, rtol=1e-9)


@pytest.mark.parametrize("text", GRID)
@pytest.mark.parametrize("bad", [1e300, -1e18, math.nan, math.inf])
def test_models_that_leave_the_grid_are_refused(text: str, bad: float) -> None:
    with pytest.raises(
        UsageError, match=r"defense .*: a model with a coordinate of .*expected at most 2\^52"
    ):
        made(text).on_message(np.array([[0.0, bad]]), tiny.context([0], P=2))


# --- claims --------------------------------------------------------------------------------------------


@settings(max_examples=60, derandomize=True)
@given(eps=st.floats(0.01, 10.0), radius=st.floats(0.01, 10.0), data=st.data())
def test_the_laplace_claim_holds_between_any_two_models_of_the_ball(
    eps: float, radius: float, data: st.DataObject
) -> None:
    """Through the clip: the largest loss over all outputs, by coordinates; the poles reach it."""
    chain = DefenseChain(
        parse_chain([f"clip:norm={radius},ord=1+laplace:eps={eps},sensitivity={2 * radius}"])
    )
    pair = np.array([data.draw(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4)) for _ in range(2)])
    here = tiny.context([0, 1], P=4)
    inside, _ = chain.on_step(pair, np.ones(2, dtype=np.bool_), 0, here)
    (law,) = [event.law for event in chain.events(here) if isinstance(event, NoiseAddition)]
    assert float(law.worst_loss(inside[0] - inside[1]).sum()) <= eps * (1 + 1e-9)
    poles, _ = chain.on_step(
        np.array([[9e9, 0, 0, 0], [-9e9, 0, 0, 0.0]]), np.ones(2, dtype=np.bool_), 0, here
    )
    assert float(law.worst_loss(poles[0] - poles[1]).sum()) == pytest.approx(eps, rel=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "gaussian-shares"])
@pytest.mark.parametrize("calibration", ["", ",calibration=classical"])
def test_the_gaussian_claim_holds_for_the_sum(name: str, calibration: str) -> None:
    defense = made(f"{name}:delta=1e-06,eps=0.9,sensitivity=3{calibration}")
    law = defense.law(tiny.context([0], shares=40))
    assert isinstance(law, Gaussian)
    sigma = law.summed(40).sigma if name == "gaussian-shares" else law.sigma
    assert gaussian_delta(3.0 / sigma, 0.9) <= 1e-6
    assert gaussian_delta(3.0 / (0.7 * sigma), 0.9) > 1e-6


@pytest.mark.parametrize("kind", ["discrete-gaussian", "skellam"])
@pytest.mark.parametrize("n", [1, 10, 1000])
def test_claims_on_a_grid_come_near_those_of_gaussian_noise_and_not_below(kind: str, n: int) -> None:
    """The grid is fine here: between the exact epsilon of the same sigma, and half as much again."""
    defense = made(f"{kind}:delta=1e-05,sensitivity=3,sigma=12,step=0.001")
    (claim,) = defense.claims(tiny.context([0], shares=n, P=46))
    exact = next(eps for eps in np.linspace(0.5, 2, 3001) if gaussian_delta(3.0 / 12.0, float(eps)) <= 1e-5)
    assert exact <= claim.epsilon <= 1.5 * exact
    (wider,) = made(f"{kind}:delta=1e-05,sensitivity=3,sigma=12,step=0.2").claims(tiny.context([0], P=46))
    assert wider.epsilon > claim.epsilon, "rounding moves models apart"


def test_who_claims_what() -> None:
    here = tiny.context([0], shares=10)
    for text in LOCAL + SHARED + ["skellam:delta=1e-05,sensitivity=3,sigma=9,step=0.01"]:
        claims = made(text).claims(here)
        local = text in LOCAL
        if "eps" in text or "sensitivity" in text:
            expected = {"individual", "aggregate", "colluding"} if local else {"aggregate"}
            if text.startswith("gamma"):  # whose authors name no observer
                expected = set(VIEWS)
            assert {claim.view for claim in claims} == expected
            unit = "interaction" if text.startswith("gamma") else "client"
            assert {(claim.unit, claim.relation) for claim in claims} == {(unit, "replace-one")}
            assert {claim.delta for claim in claims} == ({0.0} if "laplace" in text else {1e-5})
        else:
            assert claims == (), "sigma alone claims nothing"


def test_events_say_what_happens() -> None:
    here = tiny.context([0], shares=4)
    assert made("laplace:eps=2,sensitivity=3").events(here) == (
        NoiseAddition(law=GammaShare(n=1, scale=1.5)),
    )
    assert made("gaussian-shares:sigma=3").events(here) == (NoiseAddition(law=Gaussian(sigma=1.5)),)
    skellam = NoiseAddition(law=Skellam(sigma=1.5, step=0.05))
    assert made("skellam:sigma=3,step=0.05").events(here) == (GridRounding(step=0.05, nearest=True), skellam)


# --- refusals ------------------------------------------------------------------------------------------


def test_shares_narrower_than_the_grid_are_refused_when_their_number_is_known() -> None:
    defense = made("discrete-gaussian:sigma=1,step=0.1")
    assert defense.law(tiny.context([0], shares=100)) is not None
    with pytest.raises(
        UsageError, match=r"^defense discrete-gaussian: step=0.1: one of 101 shares has sigma"
    ):
        defense.law(tiny.context([0], shares=101))


SIZES = st.floats(1e-9, 1e9)
OF = st.sampled_from(["model", "update"])
LAWS = st.one_of(
    st.builds(GammaShare, n=st.integers(1, 10**6), scale=SIZES, count=st.integers(1, 999)),
    st.builds(Gaussian, sigma=SIZES),
    st.builds(Skellam, sigma=st.floats(0.01, 100), step=st.floats(0.01, 1)),
    st.builds(DiscreteGaussian, sigma=st.floats(1, 100), step=st.floats(0.01, 1), count=st.integers(1, 99)),
)
EVENTS: st.SearchStrategy[PrivacyEvent] = st.one_of(
    st.builds(NormBound, norm=SIZES, ord=st.sampled_from([1.0, 2.0, math.inf]), of=OF, always=st.booleans()),
    st.builds(NormScaling, factor=SIZES, of=OF),
    st.builds(GridRounding, step=SIZES, nearest=st.booleans()),
    st.builds(NoiseAddition, law=LAWS),
    st.builds(ClickRandomization, epsilon=st.one_of(SIZES, st.just(math.inf))),
    st.builds(ClickRandomization.reporting, st.floats(0, 1), st.floats(0, 1)),
    st.builds(MetricRandomization, epsilon=st.one_of(SIZES, st.just(math.inf))),
    st.builds(MessageAggregation, at_least=st.integers(1, 10**9)),
    st.builds(CorrelatedNoise, sigma=SIZES, bands=st.integers(1, 10**9)),
    st.builds(OpaqueChange, mechanism=st.text()),
)


@given(EVENTS)
def test_an_event_is_read_back_as_it_was(event: PrivacyEvent) -> None:
    assert parse_event(event_text(event)) == event


SHARES = KeyShares(neighbours=8, needed=5)
DOCUMENTED: dict[str, PrivacyEvent] = {
    "bounded:of=model,norm=1.5,ord=2": NormBound(norm=1.5, ord=2, of="model"),
    "bounded:of=update,norm=3,ord=inf,not-always": NormBound(norm=3, ord=math.inf, of="update", always=False),
    "resized:of=update,factor=1": NormScaling(factor=1.0, of="update"),
    "rounded:step=0.001,nearest": GridRounding(step=0.001, nearest=True),
    "rounded:step=2": GridRounding(step=2.0),
    "noised:gamma-share:n=1000,scale=2.5": NoiseAddition(law=GammaShare(n=1000, scale=2.5)),
    "randomised-clicks:eps=1": ClickRandomization(epsilon=1.0),
    "randomised-clicks:unclicked=0.1,clicked=0.6": ClickRandomization.reporting(unclicked=0.1, clicked=0.6),
    "randomised-metrics:eps=inf": MetricRandomization(epsilon=math.inf),
    "summed:at-least=10": MessageAggregation(at_least=10),
    "summed:at-least=10,neighbours=8,needed=5": MessageAggregation(at_least=10, key_shares=SHARES),
    "noised-sum:sigma=0.5,bands=10": CorrelatedNoise(sigma=0.5, bands=10),
    "opaque:home-made": OpaqueChange(mechanism="home-made"),
}
NONE = "|bounded|bounded:norm=1,ord=2|resized:of=clicks,factor=1|rounded:step=-1|noised:|summed:at-least=x"
NONE += "|randomised-clicks:unclicked=0.1|randomised-clicks:unclicked=0.1,clicked=1.5"


def test_texts_are_as_documented() -> None:
    assert {event_text(event): event for event in DOCUMENTED.values()} == DOCUMENTED


@pytest.mark.parametrize("text", NONE.split("|"))
def test_other_texts_name_no_event(text: str) -> None:
    assert parse_event(text) is None


def test_noise_of_a_law_that_is_not_known_stays_noise() -> None:
    assert parse_event("noised:student:nu=3") == UnknownNoise(law="student:nu=3")


def test_a_header_holds_the_events_of_its_chain_in_the_order_in_which_they_act(setup_of: SetupOf) -> None:
    """Stage by stage, whatever the order in which the defenses were given."""
    chain = ("skellam:sigma=12,step=0.5", "clip:norm=1.5", "click-rr:eps=1", "secure-aggregation")
    header = trace_header(setup_of(defense=chain), "perfect", 8)
    assert header.knowledge["events"] == [
        "randomised-clicks:eps=1",
        "resized:of=model,factor=1",
        "bounded:of=model,norm=1.5,ord=2",
        "rounded:step=0.5,nearest",
        "noised:skellam:sigma=4.242640687119285,step=0.5",
        "sent-as:float64",
        "rounded:step=5.960464477539063e-08,nearest",
        "summed:at-least=5,neighbours=7,needed=4",
    ]
    assert trace_header(setup_of(), "perfect", 8).knowledge["events"] == ["sent-as:float64"]


def test_a_header_tells_of_defenses_by_other_people(setup_of: SetupOf) -> None:
    noisy = trace_header(setup_of(chain=(ToyMessage(claim=2.0),)), "perfect", 8)
    assert noisy.knowledge["events"] == ["noised:gaussian:sigma=2", "sent-as:float64"]
    silent = trace_header(setup_of(chain=(ToyMessage(),)), "perfect", 8)
    assert silent.knowledge["events"] == ["opaque:toy-message", "sent-as:float64"]
