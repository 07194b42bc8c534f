"""What the header of a trace declares: the same as its Spec, and faults of headers of others."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from foltr_audit.core.declared.checks import DeclarationFinding, findings
from foltr_audit.core.declared.declared_system import AccountingBasis
from foltr_audit.errors import TraceError
from foltr_audit.privacy.events import NoiseAddition, NormBound
from foltr_audit.simulation.recorder import trace_header
from foltr_audit.trace import Fact, TraceDataset, TraceHeader
from foltr_audit.trace.declared_header import declared_by, local_noise
from tests.conftest import SetupOf

MASKS = "secure-aggregation:threshold=40"
CHAINS = (
    ("clip:norm=1.5", "gamma-laplace:eps=1.2,sensitivity=3"),
    ("clip:norm=1.5,ord=1", "laplace:eps=1.2,sensitivity=3"),
    ("clip:norm=1.5", "gaussian-shares:eps=1,delta=0.00001,sensitivity=3"),
    ("clip:norm=1.5", "skellam:sigma=9,step=0.0009765625,sensitivity=3,delta=0.00001", MASKS),
    ("clip:norm=1.5,ord=1", "laplace:eps=1.2,sensitivity=3", MASKS),
    ("clip:norm=1,at=message", "correlated-gaussian:sigma=1"),
    ("click-rr:eps=1",),
    ("none",),
)


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: "+".join(chain))
@pytest.mark.parametrize("cohort", [40, None])
def test_a_header_declares_as_its_spec(cohort: int | None, chain: tuple[str, ...], setup_of: SetupOf) -> None:
    setup = setup_of(defense=chain, clients=40, dtype="float32")
    wanted = setup.privacy.declared()
    found = declared_by(trace_header(setup, click_model=None, messages=40), cohort)
    assert found.steps == wanted.steps
    assert found.claims == wanted.claims
    assert (found.parameters, found.interactions) == (wanted.parameters, wanted.interactions)
    assert found.restated == ()
    assert findings(found) == findings(wanted)


def header(**facts: Fact) -> TraceHeader:
    """The header of another system with some facts."""
    dataset = TraceDataset(source="lab", fold=0, fingerprint="", normalised="none", parts=("train",))
    return TraceHeader(
        kind="model", dtype="float32", parameters=46, k=10, dataset=dataset, has_truth=False, knowledge=facts
    )


EVENTS = ["bounded:of=model,norm=1.5,ord=1", "noised:gamma-share:n=1000,scale=2.5"]
SUMMED = [*EVENTS, "summed:at-least=1000"]


# A clip in L1 and Laplace noise of scale 2 R / 1.2, in shares for 1000 clients.
CLIPPED: dict[str, Fact] = {"clip_norm": 1.5, "clip_ord": 1, "eps_claimed": 1.2}
SHARED: dict[str, Fact] = {**CLIPPED, "noise": "gamma-share:n=1000,scale=2.5"}
HONEST: dict[str, Fact] = {"local_dp_clip": 0.05, "claimed_sensitivity": 0.1}
HONEST |= {"local_dp_eps": 1.0, "local_dp_delta": 1e-5}
ALONE = {"noise shares: each message carries only 1/1000 of the noise": "error", "statement": "warning"}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, {}),
        (
            {
                "defense": ["clip:norm=1.5,ord=1"],
                "events": EVENTS[:1],
                "noise": "none",
                "clip_norm": 1.5,
                "clip_ord": 1,
            },
            {},
        ),
        ({"defense": ["their-clip", "their-noise"], "events": EVENTS, "eps_claimed": 1.2}, ALONE),
        (SHARED, ALONE),
        ({**SHARED, "noise": "laplace:scale=2.5"}, {"statement": "warning"}),
        (HONEST, {}),
        ({**HONEST, "local_dp_eps": 5.0}, {"noise scale": "warning"}),
        (
            {name: fact for name, fact in HONEST.items() if name != "local_dp_clip"},
            {"sensitivity: nothing that is declared bounds the messages": "warning"},
        ),
    ],
)
@pytest.mark.parametrize("cohort", [40, 1000])
def test_what_is_said_of_facts(facts: dict[str, Fact], said: dict[str, str], cohort: int) -> None:
    found = findings(declared_by(header(**facts), cohort))
    told = {f"{one.check}: {one.follows}": one.severity for one in found}
    assert len(told) == len(said)
    for start, severity in said.items():
        assert [told[one] for one in told if one.startswith(start)] == [severity]


def test_noise_for_another_number_of_clients() -> None:
    summed = [*EVENTS, "summed:at-least=600"]
    (found, _) = findings(declared_by(header(events=summed, eps_claimed=1.2), 600))
    assert (found.check, found.severity, found.right) == ("noise shares", "error", 600.0)
    assert "for 1000 clients, and 600 take part: a sum holds only 60% of the noise" in found.warning.text
    (unclaimed,) = findings(declared_by(header(events=summed), 600))
    assert unclaimed == replace(found, severity="warning")
    assert findings(declared_by(header(events=SUMMED), 1000)) == ()


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"noise": "laplace:scale=2.5", "events": EVENTS[:1]}, "knowledge.noise"),
        ({"noise": "gamma-share:n=1000,scale=1", "events": SUMMED}, "knowledge.noise"),
        ({"clip_norm": 3.0, "clip_ord": 2, "defense": ["clip:norm=1.5"]}, "knowledge.clip_norm"),
        ({"clip_norm": 1.5, "clip_ord": 1, "defense": ["clip:norm=1.5"]}, "knowledge.clip_norm"),
        ({"defense": ["clip:norm=1.5"], "events": EVENTS[:1]}, "knowledge.events"),
    ],
)
def test_what_a_header_says_twice(facts: dict[str, Fact], field: str) -> None:
    found = [one for one in findings(declared_by(header(**facts), 1000)) if one.check == "restated"]
    assert [(one.field, one.severity) for one in found] == [(field, "error")]


def test_a_header_of_any_width_costs_no_memory() -> None:
    made = replace(header(defense=["clip:norm=1.5,ord=1"]), parameters=2**31 - 1)
    with pytest.raises(TraceError, match="numbers a message; expected at most 10000000"):
        declared_by(made)


TEXTS = (
    *(*EVENTS, "bounded:of=update,norm=1e308,ord=2", "bounded:of=model,norm=0,ord=inf", "rounded:step=0"),
    *("noised:gaussian:sigma=1e200", "noised:their-law", "summed:at-least=0", "summed:at-least=5", "opaque:"),
    *("randomised-clicks:eps=inf", "clip:norm=1.5", "laplace:eps=1e-9,sensitivity=1e9", "nothing", ""),
    *("laplace:scale=1e-290", "gamma-share:n=1000,scale=2.5", "skellam:sigma=1,step=1", "none"),
    *("skellam:sigma=9,step=0.001", "secure-aggregation:threshold=7", "correlated-gaussian:bands=9,sigma=1"),
)
NUMBERS = st.one_of(st.integers(-5, 2**40), st.floats(allow_nan=False), st.booleans(), st.sampled_from(TEXTS))
SEVERAL = st.lists(st.sampled_from(TEXTS), max_size=4)
ANY_FACTS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("clip_norm", "clip_ord", "eps_claimed", "interactions", "noise"), NUMBERS),
        **dict.fromkeys(("events", "defense"), SEVERAL | NUMBERS),
        **{name: st.booleans() | NUMBERS for name in ("clip_without_pairs", "rank_with")},
    },
)


@settings(max_examples=150, derandomize=True)
@given(facts=ANY_FACTS, cohort=st.none() | st.integers(1, 2000))
def test_no_facts_break_a_check(facts: dict[str, Fact], cohort: int | None) -> None:
    for finding in findings(declared_by(header(**facts), cohort)):
        assert finding.right is None or math.isfinite(finding.right)


# --- the facts of Flower's LocalDpMod: right numbers come from the definition of differential privacy ---


def found_with(**changes: Fact) -> dict[str, DeclarationFinding]:
    """What is found in a header with these facts, by check."""
    return {found.check: found for found in findings(declared_by(header(**{**HONEST, **changes}), 50))}


def epsilon_over(distance: float, sigma: float, delta: float) -> float:
    """The epsilon of normal noise over an L2 distance: its privacy profile, solved for epsilon."""
    mu = distance / sigma

    def over(eps: float) -> float:
        upper = stats.norm.cdf(mu / 2 - eps / mu)
        return float(upper - math.exp(eps) * stats.norm.cdf(-mu / 2 - eps / mu)) - delta

    return float(optimize.brentq(over, 0.0, 200.0, xtol=1e-12))


@pytest.mark.parametrize("clip", [0.1, 0.2, 0.5])
def test_a_clip_that_allows_more_than_the_sensitivity(clip: float) -> None:
    found = found_with(local_dp_clip=clip)
    assert found["sensitivity"].severity == "error"
    assert found["sensitivity"].right == pytest.approx(2 * clip)
    sigma = 0.1 * math.sqrt(2 * math.log(1.25e5))
    follows = epsilon_over(2 * clip, sigma, 1e-5)
    assert f"epsilon {follows:.3g} at delta 1e-05, not 1" in found["sensitivity"].follows
    assert found_with(local_dp_clip=clip, claimed_sensitivity=2 * clip) == {}


def test_steps_that_the_header_states_itself_get_the_numbers() -> None:
    sigma = 0.05 * math.sqrt(2 * math.log(1.25e5))
    events = ["bounded:of=update,norm=0.05,ord=2", f"noised:gaussian:sigma={sigma!r}"]
    system = declared_by(header(**{**HONEST, "claimed_sensitivity": 0.05, "events": events}), 50)
    bound, noise = system.steps
    assert isinstance(bound.event, NormBound)
    assert isinstance(noise.event, NoiseAddition)
    assert (noise.sensitivity, noise.epsilon, noise.delta) == (0.05, 1.0, 1e-5)
    assert {found.check for found in findings(system)} == {"sensitivity", "proof"}


def test_a_classical_formula_with_room_for_a_slightly_wider_clip() -> None:
    found = found_with(local_dp_clip=0.06)["sensitivity"]
    assert found.severity == "warning"
    assert epsilon_over(0.12, 0.1 * math.sqrt(2 * math.log(1.25e5)), 1e-5) < 1
    assert "the noise is enough all the same" in found.follows


def test_noise_of_another_formula_is_compared_by_its_sensitivity_alone() -> None:
    facts: dict[str, Fact] = {"local_dp_clip": 0.2, "claimed_sensitivity": 0.1, "noise": "gaussian:sigma=1"}
    (found,) = findings(declared_by(header(**facts), 50))
    assert found.check == "sensitivity"
    assert found.right == pytest.approx(0.4)
    assert "for a client the noise is 4 times too small" in found.follows
    assert findings(declared_by(header(**{**facts, "local_dp_clip": 0.05}), 50)) == ()


@pytest.mark.parametrize("delta", [0.0, 1.0, 2.0, True])
def test_a_delta_that_is_none(delta: float) -> None:
    local = local_noise(header(**{**HONEST, "local_dp_delta": delta}))
    assert (local.sigma, local.epsilon) == (None, None)
    silent = header(local_dp_clip=0.1, local_dp_eps=1.0, local_dp_delta=1e-5)
    assert local_noise(silent) == AccountingBasis()
