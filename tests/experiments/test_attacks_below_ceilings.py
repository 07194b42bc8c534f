"""No attack exceeds what is proven, on small systems, and what is proven of observers who see all rounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
from scipy.stats import norm

from foltr_audit.api import attack
from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.run import proofs_of
from foltr_audit.report.attack import AttackReport
from tests.conftest import SetupOf
from tests.fixtures.there import there

CHAINS = (
    "clip:norm=1.5,ord=1+laplace:eps=0.3,sensitivity=3",
    "clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3",
    "clip:norm=1.5,ord=1+laplace:eps=8,sensitivity=3",
    "clip:norm=0.5+gaussian:eps=1,delta=1e-5,sensitivity=1",
    "clip:norm=0.5+gaussian:eps=30,delta=1e-5,sensitivity=1",
    "click-rr:eps=0.1",
    "click-rr:eps=0.4",
    "click-rr:eps=3",
)
LEARNERS = ("fpdgd", "fpdgd:pairs=all,normaliser=shown,learning_rate=1")
VIEWS: tuple[tuple[str, ...], ...] = ((), ("noise",), ("order", "relevance"))
WITHOUT_LISTS = ("shown",)
SURE = 5.0  # standard errors: a false alarm in about 3 of ten million comparisons
MOST = 1e-9


def excesses(report: AttackReport) -> Iterator[tuple[str, float, float]]:
    """What was measured, how far above its ceiling, and its standard error."""
    for row in report.results:
        for name in ("accuracy", "exact", "auc", "tpr_at_1"):
            yield from excess(f"{row['method']} {name}", row[name], row.number(f"ceiling_{name}"))
    for query in report.query_identification:
        yield from excess(
            f"{query['method']} names queries", query["accuracy"], query.number("ceiling_accuracy")
        )
    for link in report.linkage:
        yield from excess(f"{link['method']} links", link["accuracy"], link.number("ceiling_accuracy"))
    for any_click in report.any_click:
        yield from excess(
            f"{any_click['method']} any click", any_click["auc"], any_click.number("ceiling_auc")
        )


def excess(name: str, found: Estimate, ceiling: float) -> Iterator[tuple[str, float, float]]:
    if found.known and ceiling == ceiling and found.ci95 is not None:
        yield name, found.value - ceiling, (found.ci95[1] - found.ci95[0]) / 3.92


def attacked(
    source: str, chain: str, protocol: dict[str, Any], learner: str = LEARNERS[0], seed: int = 1
) -> AttackReport:
    table = {
        "seed": seed,
        "data": {"source": source},
        "population": {"clients": 20},
        "defense": chain.split("+"),
        "train": {"rounds": 2, "learner": learner},
        "attack": protocol,
    }
    return attack(Spec.parse(table))


def check(
    chain: str, learner: str, hide: tuple[str, ...], more: dict[str, Any], seed: int, repeats: int = 6
) -> int:
    """How many measured numbers were compared with their ceilings."""
    protocol = {"hide": hide, "repeats": repeats, **more}
    found = list(excesses(attacked("synthetic:mq2007:60", chain, protocol, learner, seed)))
    above = [one for one in found if one[1] > SURE * one[2] + MOST]
    assert not above, (chain, learner, hide, more, above)
    return len(found)


SETTINGS = list(itertools.product(CHAINS, LEARNERS, VIEWS))
CLICKS: dict[str, Any] = {"methods": ("olsr", "lad", "map", "tukey", "box-lad")}
OTHERS: dict[str, Any] = {"methods": ("query-id", "linkage", "lad"), "click_models": ("informational",)}
SEVERAL: dict[str, Any] = {"methods": ("lad", "map"), "interactions": 2, "click_models": ("perfect",)}


@pytest.mark.parametrize(("number", "chain"), list(enumerate(CHAINS))[1::2])
def test_no_attack_exceeds_its_ceiling(number: int, chain: str) -> None:
    learner, hide = LEARNERS[number % 2], VIEWS[number % 3]
    assert check(chain, learner, hide, CLICKS, seed=number, repeats=4) > 0


@pytest.mark.slow
def test_no_attack_exceeds_its_ceiling_in_any_setting() -> None:
    """144 runs, of which 48 have three click models: 240 settings."""
    compared = 0
    for seed, (chain, learner, hide) in enumerate(SETTINGS):
        compared += check(chain, learner, hide, CLICKS, seed)
        compared += check(chain, learner, hide, SEVERAL, seed)
        compared += check(chain, learner, WITHOUT_LISTS, OTHERS, seed)
    assert compared > 2000


def test_an_attack_on_less_noise_than_declared_exceeds_the_ceiling() -> None:
    """The comparison can fail: the ceilings of a strong chain, the attacks of a weak one."""
    protocol = {"methods": ["map"], "click_models": ["informational"], "repeats": 20}
    chain = "clip:norm=1.5,ord=1+laplace:eps={},sensitivity=3"
    strong, weak = (attacked("synthetic:mq2007:100", chain.format(eps), protocol) for eps in (0.3, 300))
    most = {row["method"]: row.number("ceiling_auc") for row in strong.results}
    above = [
        name
        for row in weak.results
        for name, over, error in excess(row["method"], row["auc"], most[row["method"]])
        if over > SURE * error
    ]
    assert "map" in above


# --- observers who see all rounds, and sums -------------------------------------------------------

ROUNDS, BANDS, SIGMA = 12, 6, 2.0


def column_length(bands: int) -> float:
    """Length of a column of C: the square roots' series (1 - x)^(-1/2), cut after some terms."""
    return math.sqrt(sum((math.comb(2 * k, k) / 4**k) ** 2 for k in range(bands)))


def test_later_sums_tell_more_of_a_click_whose_noise_is_correlated(setup_of: SetupOf) -> None:
    """Whoever sees the sums of all rounds tells a click by a Gaussian of the length of a column of C."""
    chain = ("clip:norm=1", f"correlated-gaussian:sigma={SIGMA},bands={BANDS}")
    setup = setup_of(defense=chain, clients=100, rounds=ROUNDS)
    found = {proof.view: proof for proof in proofs_of(setup.privacy)}["aggregate"]
    mu = 2.0 * column_length(BANDS) / SIGMA
    assert found.auc == pytest.approx(norm.cdf(mu / math.sqrt(2)), abs=1e-3)
    assert there(found.auc) > norm.cdf(2.0 / SIGMA / math.sqrt(2)) + 0.05, "one round alone tells less"


def test_attacked_sums_are_not_those_of_a_round(setup_of: SetupOf) -> None:
    privacy = setup_of(defense=("clip:norm=1", "correlated-gaussian:sigma=9"), clients=100).privacy
    known = [proof.of for proof in proofs_of(privacy, AttackSpec(view="aggregate", repeats=8))]
    assert known == 6 * ["all rounds"]
    assert [proof.of for proof in proofs_of(privacy, AttackSpec())] == [*known, "attacked"]
