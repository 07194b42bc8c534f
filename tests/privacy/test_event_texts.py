"""Privacy events as text, and what a trace's header tells of its chain."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from foltr_audit.privacy.noise import DiscreteGaussian, GammaShare, Gaussian, Skellam
from foltr_audit.simulation.recorder import trace_header
from tests.conftest import SetupOf
from tests.fixtures.tiny import ToyMessage

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
