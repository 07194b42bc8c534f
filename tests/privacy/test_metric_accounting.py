"""What randomised metrics prove: by every report of every pair of inputs."""

from __future__ import annotations

import math
from itertools import product

import pytest

from foltr_audit.privacy.accounting import AccountingContext, upper_bound
from foltr_audit.privacy.events import UNITS, ClickRandomization, MetricRandomization
from foltr_audit.privacy.randomized_response import RandomizedResponse
from tests.conftest import SetupOf


def situation(unit: str, interactions: int, rounds: int = 1) -> AccountingContext:
    """A server that sees each message of so many interactions."""
    return AccountingContext(
        view="individual", unit=unit, parameters=46, shares=10, interactions=interactions, rounds=rounds
    )


def worst_loss(p: float, v: int, interactions: int, changed: int) -> float:
    """The largest log ratio of a sum of reports when the first `changed` true values may be any others."""
    law = RandomizedResponse(p, v).matrix
    values = [0.0, *(1 / rank for rank in range(1, v))]

    def sums(truth: tuple[int, ...]) -> dict[float, float]:
        found: dict[float, float] = {}
        for report in product(range(v), repeat=interactions):
            chance = math.prod(law[t, r] for t, r in zip(truth, report, strict=True))
            key = round(sum(values[r] for r in report), 12)
            found[key] = found.get(key, 0.0) + chance
        return found

    every = {truth: sums(truth) for truth in product(range(v), repeat=interactions)}
    return max(
        abs(math.log(a[key] / b[key]))
        for one, a in every.items()
        for other, b in every.items()
        if one[changed:] == other[changed:]
        for key in a
    )


@pytest.mark.parametrize("p", [0.4, 0.5, 0.9])
@pytest.mark.parametrize("interactions", [1, 2, 3])
def test_a_message_never_loses_more_than_its_bound(p: float, interactions: int) -> None:
    events = (MetricRandomization(epsilon=RandomizedResponse(p, 3).epsilon),)
    for unit in UNITS:
        changed = 1 if unit in ("click", "interaction") else interactions
        bound = upper_bound(events, situation(unit, interactions))
        exact = worst_loss(p, 3, interactions, changed)
        assert exact <= bound.epsilon * (1 + 1e-12), unit
        assert bound.epsilon == pytest.approx(changed * RandomizedResponse(p, 3).epsilon)
        if changed == interactions:
            assert exact == pytest.approx(bound.epsilon), "all values 0, or all 1: told by their sum alone"


def test_rounds_compose_and_the_better_proof_counts() -> None:
    events = (MetricRandomization(epsilon=0.5),)
    assert upper_bound(events, situation("client", 4, rounds=10)).epsilon == pytest.approx(20.0)
    assert upper_bound(events, situation("interaction", 4, rounds=10)).epsilon == pytest.approx(0.5)
    both = (ClickRandomization(epsilon=0.01), *events)
    assert upper_bound(both, situation("interaction", 4)).epsilon == pytest.approx(0.1)
    assert "4 metrics randomised" in upper_bound(events, situation("query", 4)).how
    assert math.isinf(upper_bound((MetricRandomization(epsilon=math.inf),), situation("click", 1)).epsilon)


@pytest.mark.parametrize(("defense", "epsilon"), [("metric-rr:p=0.25", 1.204), ("metric-rr:eps=2.3", 2.3)])
@pytest.mark.parametrize("metric", ["maxrr", "dcg"])
def test_the_chain_of_an_experiment(setup_of: SetupOf, metric: str, defense: str, epsilon: float) -> None:
    if metric == "dcg" and "p=" in defense:
        defense += ",values=1024"
        epsilon = math.log(0.25 / 0.75 * 1023)
    setup = setup_of(learner=f"foltr-es:metric={metric}", defense=(defense,))
    assert setup.privacy.claim() == pytest.approx(epsilon, abs=1e-3)
    bound = upper_bound(setup.privacy.events(), situation("client", 4))
    assert bound.epsilon == pytest.approx(4 * epsilon, abs=4e-3)
    law = RandomizedResponse.parse(setup.privacy.noise() or "", setup.learner.values.size)  # type: ignore[attr-defined]
    assert law is not None
    assert law.epsilon == pytest.approx(epsilon, abs=1e-3)


def test_what_a_message_composes_is_said(setup_of: SetupOf) -> None:
    told = setup_of(learner="foltr-es", defense=("metric-rr:eps=1.2",)).privacy.warnings()
    assert tuple(each.text for each in told) == (
        "metric-rr: epsilon 1.2 is of one interaction; a message of 4 composes 4.8; claim 4.8 for a message",
    )
    for quiet in ("foltr-es:interactions=1,antithetic=false", "foltr-es"):
        defense = "metric-rr:eps=1.2" if "interactions" in quiet else "metric-rr:p=1"
        assert setup_of(learner=quiet, defense=(defense,)).privacy.warnings() == ()
