"""Alternatives of a comparison: which chain each name means, and what is proven of it."""

from __future__ import annotations

from typing import Any

import pytest

from foltr_audit.auditing.noise_for_target import calibrations
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.alternatives import DefenseAlternative
from foltr_audit.experiments.comparison.grid import DefenseLabel
from foltr_audit.experiments.runner import Runner
from foltr_audit.privacy.accounting import UpperBound, upper_bound
from foltr_audit.privacy.observer_views import WITHOUT_LISTS
from foltr_audit.simulation.setup import Setup
from tests.fixtures.there import there
from tests.fixtures.tiny import accounting

STUDY = Runner()


def setup(scenario: str = "uniform", **train: Any) -> Setup:
    """A small experiment."""
    population = {"clients": 20, "scenario": scenario}
    table = {"data": {"source": "synthetic:mq2007:30"}, "population": population, "train": train}
    return STUDY.setup(Spec.parse(table))


def bound(here: Setup, chain: tuple[str, ...], view: str, **more: Any) -> UpperBound:
    """What accounting proves of a chain for an interaction of one of twenty clients."""
    events = STUDY.setup(Spec.parse({**here.spec.table(), "defense": list(chain)})).privacy.events()
    known: dict[str, Any] = {"parameters": here.ranker.n_parameters, "shares": 20, "delta": 1e-5}
    return upper_bound(events, accounting(view=view, unit="interaction", **known | more))


TEMPLATE = "clip:norm={clip}+laplace:eps={eps},sensitivity={sensitivity}"


@pytest.mark.parametrize(
    ("text", "learner", "sensitivity", "chain"),
    [
        ("published", "fpdgd", 3.0, "clip:norm=1.5+gamma-laplace:eps=1.2,sensitivity=3"),
        ("published", "foltr-es", 3.0, "metric-rr:eps=1.2"),
        (TEMPLATE, "fpdgd", 5.0, "clip:norm=2.5+laplace:eps=1.2,sensitivity=5"),
    ],
)
def test_a_chain_is_the_learner_s_own_or_a_template_filled_in(
    text: str, learner: str, sensitivity: float, chain: str
) -> None:
    found = DefenseAlternative(text).chain(setup(learner=learner), 1.2, sensitivity, 1e-5)
    assert "+".join(found) == chain


def test_a_row_is_called_by_its_numbers() -> None:
    assert DefenseLabel(TEMPLATE, 2.5, 5.0).text == "clip:norm=2.5+laplace:eps=2.5,sensitivity=5"
    assert DefenseLabel("clip:norm={clip}+top-k:k=3", 1.2, 3.0).text == "clip:norm=1.5+top-k:k=3, eps 1.2"
    assert DefenseLabel("published", 1.2, 3.0).text == "published, eps 1.2"
    assert DefenseLabel("top-k:k=3").text == "top-k:k=3"


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("none", False), ("published", True), ("proven-skellam", True), ("top-k:k=3", False),
        ("laplace:eps={eps},sensitivity=3", True), ("top-k:k=3+published", True),
    ],
)  # fmt: skip
def test_which_alternatives_depend_on_epsilon(text: str, uses: bool) -> None:
    assert DefenseAlternative(text).uses_epsilon is uses


@pytest.mark.parametrize("mechanism", [name for name in calibrations() if name != "gamma-laplace"])
@pytest.mark.parametrize("eps", [0.5, 4.5])
def test_a_proven_alternative_keeps_its_word(mechanism: str, eps: float) -> None:
    here = setup()
    found = DefenseAlternative(f"proven-{mechanism}").chain(here, eps, 3.0, 1e-5)
    claim = there(DefenseAlternative(f"proven-{mechanism}").proven(eps, 1e-5))
    view = "aggregate" if calibrations()[mechanism].in_sum else "individual"
    proven = bound(here, found, view, delta=claim["delta"])
    assert 0.99 * eps <= proven.epsilon <= eps * (1 + 1e-9)


def test_a_secure_sum_may_hold_half_of_the_messages_and_is_calibrated_for_that() -> None:
    here = setup()
    alone = DefenseAlternative("proven-skellam").chain(here, 1.2, 3.0, 1e-5)
    masked = DefenseAlternative("proven-skellam+secure-aggregation").chain(here, 1.2, 3.0, 1e-5)
    sigmas = [float(chain[1].partition("sigma=")[2].partition(",")[0]) for chain in (alone, masked)]
    assert sigmas[1] / sigmas[0] == pytest.approx((20 / 11) ** 0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "learner", "said"),
    [
        ("proven-gamma-laplace", "fpdgd", "float32"),  # shares that floats cannot hold
        (
            "proven-gaussian-shares+secure-aggregation",
            "fpdgd",
            "nothing proves epsilon 4 of the whole.*round",
        ),
        ("proven-laplace", "foltr-es", "expected one that sends models"),
    ],
)
def test_what_has_no_proof_is_refused(text: str, learner: str, said: str) -> None:
    assert DefenseAlternative("proven-laplace+top-k:k=3").chain(setup(), 4.0, 3.0, 1e-5), "costs nothing"
    with pytest.raises(UsageError, match=said):
        DefenseAlternative(text).chain(setup(learner=learner), 4.0, 3.0, 1e-5)


# --- clients of different weights -------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["proven-skellam", "proven-skellam+secure-aggregation", "proven-laplace"])
def test_a_proof_of_sums_knows_what_clients_weigh(text: str) -> None:
    """Rows were called proven for 1.2 where accounting itself said 10.8, or that weights spoil a grid."""
    here = setup("quantity-skew")
    assert here.clients.largest_weight == max(here.clients.sizes) / min(here.clients.sizes) == 9.0
    assert setup().clients.largest_weight == 1.0
    found = DefenseAlternative(text).chain(here, 1.2, 3.0, 1e-5)
    weights = (here.clients.largest_weight, 1.0)
    bounds = [bound(here, found, "aggregate", largest_weight=weight) for weight in weights]
    assert bounds[0].epsilon == pytest.approx(1.2, rel=0.01)
    assert "on each message" in bounds[0].how
    assert bounds[1].epsilon <= bounds[0].epsilon


# --- shown lists ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "learner", "hides"),
    [
        ("proven-laplace", "fpdgd", False),
        ("proven-laplace", "fpdgd:rank_with=global", True),
        ("proven-laplace", "fpdgd:interactions=1", True),
        ("proven-skellam+secure-aggregation", "fpdgd", False),
        ("proven-click-rr", "fpdgd", True),
    ],
)
def test_what_is_promised_to_those_who_see_lists(text: str, learner: str, hides: bool) -> None:
    here = setup(learner=learner)
    assert DefenseAlternative(text).promised_views(here) == (None if hides else WITHOUT_LISTS)
    chain = DefenseAlternative(text).chain(here, 1.2, 3.0, 1e-5)
    seen = {"interactions": here.clients.interactions, "ranked_with": here.learner.ranked_with}
    assert (bound(here, chain, "individual+lists", **seen).epsilon < 1.3) == hides


def test_noise_of_the_aggregator_promises_nothing_to_who_sees_messages() -> None:
    for learner, views in (
        ("fpdgd", ("aggregate",)),
        ("fpdgd:rank_with=global", ("aggregate", "aggregate+lists")),
    ):
        here = setup(learner=learner)
        for text in ("proven-correlated-gaussian", "proven-correlated-gaussian+secure-aggregation"):
            assert DefenseAlternative(text).promised_views(here) == views
