"""Pools of a comparison as subjects, with their own attacks, audits and losses; links that must not lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foltr_audit as fa
from foltr_audit.core.results import GapRecord
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.evidence.check.outcomes import Checked, CheckSubject, outcomes
from foltr_audit.evidence.check.subjects import checked_pools, chosen_pools
from foltr_audit.experiments.comparison.grid import GridExclusion
from foltr_audit.experiments.table import NOT_TESTED, ComparedPool
from tests.fixtures.audits import ToyClip, ToyLaplace
from tests.fixtures.check_subjects import proof
from tests.fixtures.comparisons import audit, lost, setting, warned

LIMITS = SystemLimits.parse({"max_attack_auc": 0.9}, "")


def pool(name: str, number: float, eps: float | None = None, **more: Any) -> ComparedPool:
    """A pool whose numbers tell it from others."""
    fields: dict[str, Any] = {"learner": "fpdgd", "difference": lost(number), "auc": number, "ndcg": number}
    if more.get("learner") != "foltr-es":
        fields["audits"] = (audit("proven"),)
    return setting(name, eps, chain=f"chain of {name}", **(fields | more))


POOLS = (
    pool("none", 0.5, difference=NOT_TESTED),
    pool("published", 0.1, 1.0, **warned("odd")),
    pool("published", 0.2, 2.0),
    pool("published", 0.25, 2.0, click_model="navigational"),
    pool("click-rr:eps=1", 0.3),
    pool("published", 0.4, 2.0, difference=NOT_TESTED, learner="foltr-es"),
)


def compared(
    pools: tuple[ComparedPool, ...] = POOLS,
    *,
    limits: SystemLimits = LIMITS,
    defenses: tuple[str, ...] = (),
    eps: tuple[float, ...] = (),
    audit: bool = True,
    left_out: tuple[GridExclusion, ...] = (),
    failed: dict[Spec, str] | None = None,
) -> Checked:
    chosen = chosen_pools(pools, left_out, defenses, eps)
    return checked_pools(limits, pools, chosen, {"audit": audit}, left_out, failed or {})


def found(*pools: ComparedPool, **more: Any) -> list[CheckSubject]:
    return list(compared(pools or POOLS, **more).subjects)


def test_each_pool_has_what_is_its_own() -> None:
    for subject, own in zip(found(), POOLS[1:], strict=True):
        assert subject.ndcg == own.ndcg
        assert [record.role for record in subject.attacks] == ["attack", "attack"]
        assert subject.attacks[-1] in own.attacks
        assert subject.audits == own.audits


def test_names_tell_pools_apart() -> None:
    assert [subject.name for subject in found()] == [
        "published, eps 1, perfect clicks, fpdgd",
        "published, eps 2, perfect clicks, fpdgd",
        "published, eps 2, navigational clicks, fpdgd",
        "click-rr:eps=1, perfect clicks, fpdgd",
        "published, eps 2, perfect clicks, foltr-es",
    ]
    (outcome,) = outcomes(LIMITS, found(pool("a\x1b[31m\n", 0.1)))
    assert outcome.subject == "a?[31m?, perfect clicks"


def test_a_pool_loses_what_its_difference_says_and_no_defense_nothing() -> None:
    first = found(defenses=("published",), eps=(1,))[0]
    assert first.difference.upper_loss == pytest.approx(0.11)
    assert found(defenses=("none",))[0].difference.upper_loss == 0.0
    last = found()[-1]
    assert last.difference.loss is None
    assert "without a defense" in last.missing["loss"]


def test_pools_are_chosen_by_defense_and_epsilon() -> None:
    assert len(found(eps=(1,))) == 2  # click-rr is the same for every epsilon
    assert len(found(defenses=("published",), eps=(1, 2))) == 4
    assert len(found(defenses=("none", "click-rr:eps=1"))) == 2
    with pytest.raises(UsageError, match="3 is not an epsilon of this comparison; expected one of 1, 2"):
        found(eps=(3,))
    with pytest.raises(UsageError, match="only the runs without a defense"):
        found(POOLS[0])
    left = (GridExclusion(learner="fpdgd", defense="metric-rr:eps=1", why="it has no metric stage"),)
    with pytest.raises(UsageError, match="left out: it has no metric stage"):
        found(defenses=("metric-rr:eps=1",), left_out=left)


def test_why_there_is_no_audit() -> None:
    last = POOLS[-1]
    assert found(last, audit=False)[0].missing["audits"] == "the comparison ran without audits"
    left = (GridExclusion(learner="foltr-es", defense="audit", why="it sends metrics"),)
    assert found(left_out=left)[-1].missing["audits"] == "it sends metrics"


def test_an_audit_that_failed_has_its_own_reason_and_not_that_of_an_attack() -> None:
    last = POOLS[-1]
    other = Spec.parse({"defense": ["none"], "audit": {}})
    mine = last.spec.model_copy(update={"attack": None, "audit": other.audit, "repetition": 7})
    failed = {other: "another chain", mine: "no query is long enough"}
    assert found(failed=failed)[-1].missing["audits"] == "no query is long enough"


def test_refused_attacks_go_with_their_pool() -> None:
    gaps = tuple(GapRecord(what="refused", method=name, why="no law") for name in ("position-prior", "map"))
    subjects = found(POOLS[1], pool("laplace", 0.2, gaps=gaps))
    assert [subject.refused for subject in subjects] == [{}, {"map": "no law"}]
    assert not any(subject.all_attacks for subject in subjects)


def test_warnings_are_of_the_judged_pools_and_of_what_was_left_out() -> None:
    left = (GridExclusion(learner="dbgd", defense="audit", why="no"),)
    told = compared(left_out=left, defenses=("published",), eps=(1,)).warnings
    expected = ["published, eps 1: odd", "left out of the comparison: dbgd, audit: no"]
    assert [warning.text for warning in told] == expected


def test_a_chain_with_a_broken_link_has_no_ceiling() -> None:
    """The audit of one view voids the proofs of all, since they rest on the same links."""
    broken = audit("declared law broken", view="aggregate", declared="broken", declared_why="half the noise")
    ceiling = SystemLimits.parse({"max_ceiling_auc": 0.9}, "")
    for audits, status in (((audit("proven"),), "holds"), ((broken,), "broken"), ((), "not judged")):
        made = pool("laplace", 0.2, proofs=(proof(),), audits=audits)
        (outcome,) = outcomes(ceiling, found(made, limits=ceiling))
        assert outcome.status == status
        if status == "broken":
            assert outcome.value == 1.0
            assert "a link does less than it declares: half the noise" in outcome.about


# --- a link that lies, in a new run and in a recorded one -----------------------------------------

WORLD: dict[str, Any] = {
    "data": {"source": "synthetic:mq2007:60"},
    "population": {"clients": 20},
    "train": {"rounds": 2, "click_model": "perfect", "learner": "fpdgd:rank_with=global"},
    "attack": {"methods": ["olsr"], "click_models": ["perfect"], "on": ["test"]},
    "audit": {"trials": 20},
}
CEILING = {"max_ceiling_auc": 0.8}


def test_a_link_that_lies_leaves_no_ceiling(tmp_path: Path) -> None:
    """What an honest chain leaves is in `tests/golden/checks.console`."""
    chain = [fa.use_plugin(ToyClip), f"{fa.use_plugin(ToyLaplace)}:broken=half noise"]
    spec = fa.Spec(**WORLD, defense=chain)
    fresh = fa.check(CEILING, spec)
    fa.attack({**WORLD, "audit": None, "defense": chain}, out=tmp_path / "run")
    recorded = fa.check(CEILING, tmp_path / "run")
    for report in (fresh, recorded):
        (outcome,) = report.rows()
        assert (outcome["status"], outcome["value"]) == ("broken", 1.0)
        assert "a link does less than it declares" in str(outcome["about"])
