"""Candidates of `recommend`: what accounting lets pass, a search beside brute force, and the confirmation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest

from foltr_audit.auditing.noise_for_target import calibrations
from foltr_audit.core.results import GapRecord, ProofRecord
from foltr_audit.core.settings.defaults import SECURE_AGGREGATION
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.decide import MOST_LOSS
from foltr_audit.experiments.recommend.recommend import (
    CandidateEvaluator,
    SearchBudget,
    broken_on_test,
    choose,
    confirm,
    confirmation_grid,
    recommend,
    search,
    worst_attack,
)
from foltr_audit.experiments.recommend.space import (
    CandidateAccountant,
    CandidatePoint,
    PrivacyLimits,
    SearchedNumbers,
    SearchSpace,
)
from foltr_audit.experiments.runner import Runner
from foltr_audit.experiments.table import NOT_TESTED
from foltr_audit.judge.scoring import click_records
from foltr_audit.privacy.bounds import UpperBound
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon
from foltr_audit.report.recommend import RecommendReport
from foltr_audit.rng import Streams
from tests.fixtures.audits import leave_out_law_tests
from tests.fixtures.command import answer
from tests.fixtures.comparisons import checked, lost, setting
from tests.fixtures.there import there

BASE = Spec.parse(
    {
        "data": {"source": "synthetic:mq2007:60"},
        "population": {"clients": 20},
        "train": {"rounds": 2},
        "trace": {"every": 0},
        "attack": {"methods": ["olsr"], "click_models": ["perfect"]},
    }
)
STUDY = Runner(with_undefended=False)


def accountant(limits: PrivacyLimits) -> CandidateAccountant:
    return CandidateAccountant(STUDY.setup(BASE), limits)


def candidates(limits: PrivacyLimits, path: Path) -> CandidateEvaluator:
    folder = ComparisonFolder.create(path, resume=False, overwrite=False)
    return CandidateEvaluator(accountant(limits), folder, Workers(jobs=1), total=1)


@pytest.fixture
def any_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates may lose whatever they do: a dozen queries show no loss to be small."""
    monkeypatch.setattr("foltr_audit.experiments.recommend.recommend.MOST_LOSS", 1.0)


# --- accounting comes first -----------------------------------------------------------------------


def test_a_server_that_sees_messages_needs_whole_noise_or_a_secure_sum() -> None:
    space = SearchSpace.of(accountant(PrivacyLimits(max_eps=4.0)))
    alone = ("laplace", "gaussian", "click-rr")
    summed = (*alone, "discrete-gaussian", "skellam")
    expected = {f"proven-{name}" for name in alone}
    expected |= {f"proven-{name}+{SECURE_AGGREGATION}" for name in summed}
    assert set(space.defenses) == expected
    refused = {one.point.alternative: one.eps_proven for one in space.refused}
    assert refused["none"] == refused[SECURE_AGGREGATION] == refused["proven-gamma-laplace"] == math.inf
    assert len(expected) + len(refused) == 2 + 2 * len(calibrations())


def test_shares_are_enough_for_who_gets_sums_only() -> None:
    space = SearchSpace.of(accountant(PrivacyLimits(max_eps=4.0, view="aggregate")))
    for name in set(calibrations()) - {"gamma-laplace"}:  # sent as floats it has no proof
        assert f"proven-{name}" in space.defenses
    assert SECURE_AGGREGATION not in space.defenses  # a sum without noise has no epsilon


@pytest.mark.parametrize(("learner", "others"), [("fpdgd", False), ("fpdgd:rank_with=global", True)])
def test_only_randomised_clicks_hide_what_lists_tell(learner: str, others: bool) -> None:
    """Unless the global model ranks every list."""
    train = BASE.train.model_copy(update={"learner": learner})
    here = STUDY.setup(BASE.model_copy(update={"train": train}))
    space = SearchSpace.of(CandidateAccountant(here, PrivacyLimits(max_eps=4.0, view="individual+lists")))
    assert {"proven-click-rr", f"proven-click-rr+{SECURE_AGGREGATION}"} <= set(space.defenses)
    assert ("proven-laplace" in space.defenses) == others
    assert (f"proven-skellam+{SECURE_AGGREGATION}" in space.defenses) == others
    refused = {one.point.alternative: one.refused for one in space.refused}
    assert others or "--rank-with global" in refused["proven-laplace"]


def test_without_a_limit_on_epsilon_a_secure_sum_alone_is_a_candidate() -> None:
    space = SearchSpace.of(accountant(PrivacyLimits(max_eps=math.inf)))
    assert {"none", SECURE_AGGREGATION} <= set(space.defenses)
    assert space.defenses["proven-laplace"].eps == (100.0 / 30.0, 100.0)
    assert "proven-gamma-laplace" not in space.defenses  # nothing is proven for what it is made for


@pytest.mark.parametrize(("eps", "norm"), [(4.0, 1.5), (0.37, 0.2)])
def test_noise_in_closed_form(eps: float, norm: float) -> None:
    """Laplace: two models in an L1 ball of radius R are 2 R apart. Clicks: ten of a list share epsilon."""
    asked = accountant(PrivacyLimits(max_eps=4.0))
    laplace = asked.prove(CandidatePoint("proven-laplace", eps, norm))
    clicks = asked.prove(CandidatePoint("proven-click-rr", eps))
    assert not laplace.refused
    assert not clicks.refused
    assert laplace.defense == (f"clip:norm={norm:g},ord=1", f"laplace:eps={eps:g},sensitivity={2 * norm:g}")
    assert float(clicks.defense[0].removeprefix("click-rr:eps=")) == pytest.approx(eps / 10, rel=1e-3)
    assert laplace.eps_proven == pytest.approx(eps, rel=1e-4)  # five digits, on the safe side
    assert clicks.eps_proven <= eps * (1 + 1e-9)


def test_a_candidate_above_the_limit_is_never_run(tmp_path: Path) -> None:
    runner = candidates(PrivacyLimits(max_eps=1.0), tmp_path)
    points = [CandidatePoint("proven-laplace", 1.5, 1.5), CandidatePoint(SECURE_AGGREGATION)]
    assert runner(points) == [None, None]
    assert not list(tmp_path.glob("cells/*"))
    assert [one.eps_proven for one in runner.judged] == [pytest.approx(1.5, rel=1e-4), math.inf]
    assert [one.outcome for one in runner.judged] == ["refused", "refused"]


# --- what a candidate is judged by ----------------------------------------------------------------


def test_a_candidate_is_judged_on_the_validation_part_by_its_worst_attack(tmp_path: Path) -> None:
    runner = candidates(PrivacyLimits(max_eps=4.0, max_auc=0.9), tmp_path)
    point = CandidatePoint("proven-click-rr", 4.0)
    (score,) = runner([point])
    (spec,) = runner.specs(runner.judged[0].defense)
    assert there(spec.attack).on == ("vali",)
    cell = STUDY.run(spec)
    records = click_records(cell.attacks.evidence["perfect"], Streams(spec.seed))
    auc = next(record.metric("auc") for record in records if record.method == "olsr")
    attack = there(worst_attack([runner.folder.read(spec)]))
    assert attack.metric("auc") == auc
    assert score is not None
    assert auc.ci95 is not None
    difference = runner.judged[0].difference
    assert score.excess == max(auc.ci95[1] - 0.9, difference.upper_loss - MOST_LOSS)
    mine, alone = (runner.folder.read(*runner.specs(chain)) for chain in (spec.defense, ["none"]))
    lost = there(alone.utility.validation) - there(mine.utility.validation)
    assert difference.size.value == pytest.approx(-lost)


def test_no_defense_loses_nothing_and_what_loses_too_much_is_outside_of_the_limits(tmp_path: Path) -> None:
    runner = candidates(PrivacyLimits(max_eps=math.inf), tmp_path)
    none, noise = runner([CandidatePoint("none"), CandidatePoint("proven-laplace", 0.01, 1.5)])
    assert none is not None
    assert noise is not None
    assert none.feasible
    assert not noise.feasible
    assert [one.outcome for one in runner.judged] == ["kept", "costs too much"]


def grid(space: SearchSpace) -> Iterator[CandidatePoint]:
    for name, (_, clips) in space.defenses.items():
        for eps, norm in product((0.3, 1.2, 4.0), (0.3, 1.0, 3.0) if clips else (None,)):
            yield CandidatePoint(name, eps, norm)


@pytest.mark.slow
@pytest.mark.usefixtures("any_loss")
def test_brute_force_finds_nothing_clearly_better(tmp_path: Path) -> None:
    """Than nDCG on a dozen validation queries can tell."""
    limits = PrivacyLimits(max_eps=4.0, max_auc=0.75)
    space = SearchSpace(
        defenses={
            "proven-click-rr": SearchedNumbers((4.0 / 30.0, 4.0), None),
            "proven-laplace": SearchedNumbers((4.0 / 30.0, 4.0), (0.1, 10.0)),
        }
    )
    runner = candidates(limits, tmp_path)
    found = search(space, runner, 12, Streams(BASE.seed))
    number = there(choose(runner.judged))
    chosen = there(found[number][1])
    assert chosen.feasible
    scores = [score for score in runner(list(grid(space))) if score is not None]
    kept = [score.utility for score in scores if score.feasible]
    assert len(kept) >= 6
    assert max(kept) - min(kept) > 0.1  # otherwise anything would do
    assert chosen.utility > max(kept) - 0.03


# --- the confirmation -----------------------------------------------------------------------------


@pytest.mark.usefixtures("any_loss")
def test_the_confirmation_shares_nothing_with_the_search(tmp_path: Path) -> None:
    folder = ComparisonFolder.create(tmp_path, resume=False, overwrite=False)
    effort = SearchBudget(candidates=3, search_runs=2, runs=2, trials=40)
    found = recommend(BASE, PrivacyLimits(max_eps=4.0, max_auc=0.95), effort, folder, Workers(jobs=1))
    report = RecommendReport.of(found, folder)
    assert found.winner is not None
    cells = folder.cells()
    for cell in cells:
        assert cell.spec.repetition >= effort.search_runs
        if cell.spec.attack is not None:
            assert cell.spec.attack.on == ("test",)
    kinds = [(cell.kind, cell.label.alternative == "none") for cell in cells]
    assert sorted(kinds) == [("attack", False)] * 2 + [("attack", True)] * 2 + [("audit", False)]
    searched = [Spec.from_toml(path.read_text()) for path in tmp_path.glob("cells/*/spec.toml")]
    others = [spec for spec in searched if spec not in {cell.spec for cell in cells}]
    assert {spec.repetition for spec in others} == {0, 1}
    assert all(spec.attack and spec.attack.on == ("vali",) for spec in others)
    assert report.evidence is not None
    assert report.recommended is not None
    eps = report.recommended["eps_proven"]
    assert report.evidence["eps_proven_individual"] == pytest.approx(eps, rel=1e-6)
    assert report.evidence["verdict_individual"] == "proven"


@pytest.mark.parametrize(
    "point",
    [CandidatePoint("proven-click-rr", 4.0), CandidatePoint(SECURE_AGGREGATION), CandidatePoint("none")],
)
def test_what_has_no_clip_is_audited_too(
    point: CandidatePoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foltr_audit.experiments.recommend.recommend.run_cells", lambda *_: [])
    folder = ComparisonFolder.create(tmp_path, resume=False, overwrite=False)
    limits = PrivacyLimits(max_eps=math.inf)
    confirm(BASE, point, limits, STUDY, folder, Workers(jobs=1), SearchBudget(runs=1, trials=40))
    audits = [cell for cell in folder.cells() if cell.kind == "audit"]
    assert [cell.label.alternative for cell in audits] == [point.alternative]
    assert there(audits[0].spec.audit).claim == point.eps


def test_the_confirming_grid_has_the_experiments_settings() -> None:
    point = CandidatePoint("proven-laplace", 2.0, 0.5)
    found = confirmation_grid(BASE, point, PrivacyLimits(max_eps=4.0), SearchBudget(runs=2, trials=40))
    assert (found.runs, found.eps, found.sensitivity) == (2, (2.0,), 1.0)
    assert found.defenses == ("none", "proven-laplace")
    spec = found.spec_of(found.learners[0], "uniform", "perfect", 0, "attack")
    assert there(spec.attack).on == ("test",)
    assert spec.train == BASE.train
    assert (spec.population, spec.data) == (BASE.population, BASE.data)


@pytest.mark.parametrize("field", ["candidates", "search_runs", "runs"])
def test_nothing_is_no_effort(field: str) -> None:
    with pytest.raises(UsageError, match="expected at least 1"):
        SearchBudget(**{field: 0})


# --- limits on what proofs leave to attacks -------------------------------------------------------


SUMS = ("--data", "synthetic:mq2007:300", "--clients", 100, "--rounds", 5, "--view", "aggregate")
"""Sixty queries, which can show that noise in sums costs little."""
STEP = 0.05
"""How far the largest epsilon that the search finds may be below the true one, as a share."""


@cache
def space(**limits: float | str) -> SearchSpace:
    return SearchSpace.of(accountant(PrivacyLimits(**limits)))  # type: ignore[arg-type]


def test_the_largest_epsilon_of_gaussian_noise_by_its_closed_form() -> None:
    """An AUC of A is mu = sqrt 2 Phi^-1(A), whose epsilon at delta 1e-5 has a formula."""
    searched = space(max_proven_auc=0.6).defenses["proven-gaussian"].eps
    exact = gaussian_epsilon(math.sqrt(2) * NormalDist().inv_cdf(0.6), 1e-5)
    assert searched is not None
    assert exact * (1 - STEP) < searched[1] < exact


def test_each_mechanism_has_a_largest_epsilon_of_its_own() -> None:
    found = {name: one.eps for name, one in space(max_proven_auc=0.6).defenses.items()}
    pure = math.log(0.6 / 0.4)
    for name, eps in found.items():
        assert eps is not None, f"{name}: noise is all that proofs rest on"
        assert eps[1] >= pure * (1 - STEP), "every (epsilon, delta) promises what the pure epsilon does"
    laplace, clicks = found["proven-laplace"], found["proven-click-rr"]
    assert laplace is not None
    assert clicks is not None
    assert laplace[1] < pure * (1 + STEP), "its worst pair differs in one coordinate"
    assert clicks[1] > 2 * laplace[1], "ten randomised clicks seldom all lie"


def test_both_limits_hold() -> None:
    limits = PrivacyLimits(max_eps=0.3, max_proven_auc=0.9)
    found = SearchSpace.of(accountant(limits)).defenses["proven-laplace"].eps
    assert found == (0.3 / 30.0, 0.3)


def test_what_has_no_proof_is_refused() -> None:
    refused = {one.point.alternative: one for one in space(max_proven_auc=0.6).refused}
    for name in ("none", SECURE_AGGREGATION, "proven-gamma-laplace"):
        assert refused[name].auc_proven == 1.0
        assert "AUC" not in refused[name].refused, "that nothing is proven says it"
    with_lists = space(max_proven_auc=0.6, view="individual+lists")
    assert "proven-laplace" in {one.point.alternative for one in with_lists.refused}


def test_a_candidate_above_the_limit_is_rejected_with_its_promise() -> None:
    asked = accountant(PrivacyLimits(max_proven_auc=0.6))
    above = asked.prove(CandidatePoint("proven-laplace", 1.2, 1.5))
    assert above.outcome == "refused"
    assert 0.6 < above.auc_proven < 1 / (1 + math.exp(-1.2))
    assert "above .600" in above.refused
    within = asked.prove(CandidatePoint("proven-laplace", 0.4, 1.5))
    assert not within.refused
    assert within.auc_proven <= 0.6


def test_the_whole_command(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_law_tests(monkeypatch)
    found = answer("recommend --max-proven-auc 0.7 --candidates 4 --trials 40 --runs 1 --jobs 1", *SUMS)
    assert found["confirmed"]
    chosen, evidence = found["recommended"], found["evidence"]
    assert chosen["auc_proven"] <= 0.7
    said = f"no attack can infer a click of one interaction with an AUC above {chosen['auc_proven']:.3f}"
    assert said.replace(" 0.", " .") in found["sentence"]
    promised = {one["view"]: one["auc"] for one in evidence["ceilings"]}
    assert promised["aggregate"] == pytest.approx(chosen["auc_proven"])
    assert found["config"]["limits"]["max_eps"] == "inf"


# --- what the test split shows against it ---------------------------------------------------------


PROOF = ProofRecord(
    of="all rounds", view="individual", unit="interaction", rounds=1, auc=0.65,
    upper=UpperBound(epsilon=1.2, delta=0.0, how="noise"),
)  # fmt: skip


def broken(limits: dict[str, float], auc: float | None = 0.55, **pool: Any) -> list[str]:
    """What is broken by a pool whose best attack has an AUC with an interval of .04."""
    fields = {**checked("proven"), "proofs": (PROOF,), **pool}
    return broken_on_test(setting("a", 1.2, auc=auc, **fields), [], PrivacyLimits(**limits))  # type: ignore[arg-type]


def test_within_all_limits_nothing_is_broken() -> None:
    assert broken({"max_eps": 1.2, "max_auc": 0.6, "max_proven_auc": 0.65}) == []


@pytest.mark.parametrize(
    ("limits", "pool", "words"),
    [
        (
            {"max_eps": 2.0, "max_auc": 0.56},
            {},
            "at most .570 (limit .560); the best guess without a message has .600",
        ),
        ({"max_eps": 2.0, "max_auc": 0.6}, {"auc": None}, "no attack could be run on the test split"),
        ({"max_eps": 1.0}, {}, "the audit proves epsilon 1.2, above 1"),
        ({"max_eps": 2.0}, checked("not refuted"), "the audit proves no epsilon"),
        ({"max_eps": 2.0}, checked("refuted", proven=1.2), "the verdict on its epsilon is: refuted"),
        ({"max_eps": 2.0}, {"audits": ()}, "its epsilon was not audited"),
        ({"max_proven_auc": 0.6}, {}, "the proof leaves an AUC of .650, above .600"),
        (
            {"max_eps": 2.0},
            {"difference": lost(0.045)},
            "cost not known: .045 of nDCG@10 lost, at 95 % confidence up to .055 (limit .050); about 400 "
            "test queries would settle it, instead of 100",
        ),
        (
            {"max_eps": 2.0},
            {"difference": lost(0.07)},
            "costs too much: .070 of nDCG@10 lost, at 95 % confidence at least .060 (limit .050)",
        ),
        ({"max_eps": 2.0}, {"difference": NOT_TESTED}, "there is no run without a defense to compare with"),
        ({"max_proven_auc": 0.6}, {"proofs": ()}, "the proof leaves an AUC of 1.000, above .600"),
        (
            {"max_proven_auc": 0.7},
            checked("proven", declared="broken", declared_why="half the noise"),
            "the proof leaves an AUC of 1.000, above .700",
        ),
    ],
)
def test_a_broken_limit_is_named(limits: dict[str, float], pool: dict[str, Any], words: str) -> None:
    (fault,) = broken(limits, **pool)
    assert fault.endswith(words)


def test_no_defense_costs_nothing() -> None:
    alone = setting("none", auc=0.55, proofs=(PROOF,), **checked("proven"))
    assert broken_on_test(alone, [], PrivacyLimits(max_eps=math.inf)) == []


def test_what_could_not_be_run_confirms_nothing() -> None:
    lost = [GapRecord(what="failed", why="no disk")]
    for pool in (None, setting("a", 1.2, **checked("proven"))):
        assert broken_on_test(pool, lost, PrivacyLimits(max_eps=math.inf)) == [
            "the confirmation could not be run: no disk"
        ]
