"""Pools of a comparison from made-up cells, against numbers by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import t, ttest_rel

from foltr_audit.core.results import AuditRecord, GapRecord, RunRecord, UtilityRecord
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.errors import TraceError
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import CellPlan, DefenseLabel
from foltr_audit.experiments.store import StoredRun
from foltr_audit.experiments.table import (
    NOISE_SHARES,
    ComparedPool,
    hit_hardest,
    proven_auc,
    read_pools,
    worst_audit,
)
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.rng import Streams
from tests.fixtures.comparisons import DATA, attack, audit, hit, proofs, report, setting
from tests.fixtures.evidence import random_evidence
from tests.fixtures.there import there

Values = np.ndarray[Any, Any]

NDCG = np.array([[0.2, 0.4, np.nan, 0.9, 0.1], [0.3, 0.2, np.nan, 0.8, 0.3]])
BASE = np.array([[0.5, 0.4, 0.2, 0.9, 0.3], [0.4, 0.6, 0.2, 0.7, 0.3]])
ONLINE = {"none": (0.5, 0.56, 0.53), "published": (0.4, 0.42, 0.02)}
LABELS = {"none": DefenseLabel("none"), "published": DefenseLabel("published", 1.2, 3.0)}
CHAINS = {"none": ["none"], "published": ["clip:norm=1.5", "gamma-laplace:eps=1.2,sensitivity=3"]}


def stored(name: str, run: int, ndcg: Values, **changes: Any) -> StoredRun:
    """A made-up cell of one run."""
    spec = Spec.parse(
        {"repetition": run, "defense": CHAINS[name], "attack": {"click_models": ["perfect"]}}, ""
    )
    fields: dict[str, Any] = {
        "record": RunRecord(
            run=spec.hash, learner="fpdgd", pdgd="pham-2022", trained_on="perfect",
            claim=None if name == "none" else 1.2, per_round=4, groups=("a", "b"), population=None,
            warnings=(),
        ),
        "data": DATA,
        "utility": UtilityRecord(
            ndcg=0.3, evaluated_on="the test split", ceiling=0.9, untrained=0.1, validation=0.3 + run / 10,
            online_mean=ONLINE[name][run], online_sum=5.0, clipped=0.25, bytes_per_client=184.0 + run,
        ),
        "rounds": {
            "round": np.arange(2.0),
            "online_ndcg@10": np.array([0.1, 0.2]) + run,
            "offline_ndcg@10": np.array([0.3, 0.4]) + run,
            "online_ndcg@10/a": np.array([0.1, 0.3]),
            "online_ndcg@10/b": np.array([0.1, np.nan]) if run else np.array([0.1, 0.2]),
        },
        "evidence": random_evidence(run, 30),
    }  # fmt: skip
    return StoredRun(spec=spec, query_ndcg=ndcg, validation_ndcg=ndcg, **(fields | changes))


def cells(name: str, values: Values) -> list[StoredRun]:
    return [stored(name, run, row) for run, row in enumerate(values)]


class Cells:
    """A folder that counts how often each cell is read."""

    path = Path("made-up")

    def __init__(self, runs: Sequence[StoredRun]) -> None:
        self.runs = {run.spec: run for run in runs}
        self.read_specs: list[Spec] = []

    def read(self, spec: Spec) -> StoredRun:
        self.read_specs.append(spec)
        return self.runs[spec]


def table(*runs: StoredRun) -> tuple[ComparedPool, ...]:
    folder = Cells(runs)
    names = {tuple(chain): name for name, chain in CHAINS.items()}
    planned = [
        CellPlan(run.spec, "audit" if run.spec.audit else "attack", LABELS[names[run.spec.defense]])
        for run in runs
    ]
    made = read_pools(cast(ComparisonFolder, folder), planned, planned)
    assert sorted(folder.read_specs, key=hash) == sorted(folder.runs, key=hash), "each is read once"
    return made


def pool(*runs: StoredRun) -> ComparedPool:
    return next(one for one in table(*runs) if one.spec == runs[0].spec)


def test_runs_in_which_no_sum_opened_are_counted() -> None:
    some = cells("published", NDCG)
    silent = (GapRecord(what="nothing to read", why="no sum"),)
    first = stored("published", 0, NDCG[0], evidence=None, gaps=silent)
    found = pool(first, some[1])
    assert (found.without_sum, found.unread, found.best.auc.known) == (1, False, True)
    found = pool(first, stored("published", 1, NDCG[1], evidence=None, gaps=silent))
    assert (found.without_sum, found.unread, found.best.auc.known) == (2, True, False)


def test_utility_against_the_same_by_hand() -> None:
    mine, base = cells("published", NDCG), cells("none", BASE)
    found = pool(*mine, *base)
    means, others = (values.mean(axis=0)[[0, 1, 3, 4]] for values in (NDCG, BASE))
    assert found.name == "published, eps 1.2"
    assert found.ndcg.value == pytest.approx(means.mean())
    assert found.difference.size.value == pytest.approx((means - others).mean())
    assert found.difference.p == pytest.approx(ttest_rel(means, others).pvalue)
    names = np.array([f"0:{number:07d}" for number in (0, 1, 3, 4)])
    assert found.ndcg.ci95 == QueryBootstrap(names, Streams(1)).share(means).ci95
    online = ttest_rel(ONLINE["published"][:2], ONLINE["none"][:2])
    assert found.online_difference.p == pytest.approx(online.pvalue)
    assert found.online.value == pytest.approx(0.41)
    assert (found.online.ci95, found.online_difference.size.ci95) == (None, None)
    assert (found.mean("bytes_per_client"), found.runs) == (184.5, 2)


def test_no_defense_may_come_last_and_its_cells_are_read_once() -> None:
    first, last = table(*cells("none", BASE), *cells("published", NDCG))
    again, base = table(*cells("published", NDCG), *cells("none", BASE))
    assert again.difference == last.difference
    assert base.ndcg == first.ndcg
    assert not base.difference.size.known


def half_width(values: Values) -> float:
    return float(t.ppf(0.975, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size))


def test_the_interval_over_runs_has_no_end_below_0() -> None:
    """Student's over .4, .42 and .02 is -.28 to .84, of the difference to no defense -.77 to .27."""
    three = np.concatenate([NDCG, NDCG[:1]])
    found = pool(*cells("published", three), *cells("none", three))
    values = np.array(ONLINE["published"])
    assert values.mean() < half_width(values)
    assert found.online.ci95 == pytest.approx((0.0, values.mean() + half_width(values)))
    apart = values - np.array(ONLINE["none"])
    ends = (max(apart.mean() - half_width(apart), -1.0), apart.mean() + half_width(apart))
    assert found.online_difference.size.ci95 == pytest.approx(ends)


def test_one_run_has_no_interval_over_runs() -> None:
    found = pool(*cells("published", NDCG[:1]), *cells("none", BASE[:1]))
    assert (found.online.ci95, found.online_difference.p) == (None, None)
    assert found.online_difference.size.value == pytest.approx(0.4 - 0.5)


def test_only_repetitions_that_both_have_are_held_against_each_other() -> None:
    mine, base = cells("published", NDCG), cells("none", BASE)
    found, alone = pool(mine[1], *base), pool(mine[1], base[1])
    assert found.difference == alone.difference
    assert found.online_difference == alone.online_difference
    assert not pool(mine[0], base[1]).difference.size.known


def test_the_worst_served_group_and_the_curves() -> None:
    found = pool(*cells("published", NDCG))
    assert list(found.served) == ["b", "a"]
    assert found.served["b"] == pytest.approx((0.15 + 0.1) / 2)
    assert found.curves["offline_ndcg@10"] == pytest.approx([0.8, 0.9])
    (row,) = report(found).results
    assert (row["worst_served_group"], row["groups"]) == ("b", 2)


def test_an_audit_is_shared_by_the_pools_of_its_chain() -> None:
    mine = cells("published", NDCG)
    spec = Spec.parse({"defense": CHAINS["published"], "audit": {}}, "")
    audited = replace(stored("published", 0, NDCG[0], audits=(audit("proven"),)), spec=spec)
    found = pool(*mine, audited)
    assert [one.verdict for one in found.audits] == ["proven"]


def test_cells_of_other_data_are_refused() -> None:
    mine = cells("published", NDCG)
    other = stored("published", 1, NDCG[1], data=DATA.model_copy(update={"fingerprint": "cd34"}))
    with pytest.raises(TraceError, match="cells of different data: fingerprints ab12 and cd34"):
        table(mine[0], other)


# --- joins ------------------------------------------------------------------------------------------


def test_the_best_attack_is_the_one_with_the_highest_auc() -> None:
    found = [attack("prior", 0.9, guess=True), attack("first", 0.5, guess=True)]
    found += [attack("olsr", math.nan), attack("lad", 0.7), attack("map", 0.6)]
    found += [attack("relevance-prior", 0.8, guess=True)]
    best = setting("none", attacks=tuple(found)).best
    assert best.attack is not None
    assert (best.attack.method, best.guess, best.guess_auc, best.grades_auc) == ("lad", "prior", 0.9, 0.8)
    assert best.above_guess.value == pytest.approx(-0.2)
    nothing = setting("none", attacks=()).best
    assert (nothing.attack, nothing.guess, nothing.guess_auc, nothing.grades_auc) == (None,) * 4
    assert not nothing.auc.known
    assert not nothing.above_guess.known


def test_the_hardest_hit_group_is_that_of_the_best_attack() -> None:
    rare = hit("rare", 0.9, 0.8)
    found = hit_hardest(setting("none", groups=(rare.model_copy(update={"method": "olsr"}), rare)))
    assert found is rare
    assert hit_hardest(setting("none", auc=None)) is None


def claims() -> list[AuditRecord]:
    client = {"unit": "client", "proven": 5.0}
    return [
        *(audit("proven"), audit("refuted", proven=math.inf, unit="client")),
        *(audit("proven", "aggregate", proven=1.0), audit("not refuted", "aggregate", **client)),
    ]


@pytest.mark.parametrize("turned", [False, True])
def test_of_several_units_the_worst_one_is_told(turned: bool) -> None:
    found = setting("none", audits=tuple(claims()[::-1] if turned else claims()))
    worst = [worst_audit(found, view) for view in ("individual", "aggregate", "colluding")]
    assert [one and (one.verdict, one.upper.epsilon) for one in worst] == [
        ("refuted", math.inf), ("not refuted", 5.0), None,
    ]  # fmt: skip
    (row,) = report(found).results
    assert (row["verdict_individual"], row["unit_individual"]) == ("refuted", "client")
    assert (row["eps_proven_individual"], row["eps_proven_aggregate"]) == (math.inf, 5.0)
    assert "eps_proven_colluding" not in row


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"declared": "broken", "declared_why": "no noise"}, "a link does less than it declares: no noise"),
        ({"verdict": "contradiction", "why": "2 is shown"}, "its audit contradicts it: 2 is shown"),
        ({}, "by accounting"),
    ],
)
def test_nothing_is_proven_of_a_chain_whose_audit_found_a_fault(fault: dict[str, str], why: str) -> None:
    """Of no view, whichever was audited, and of the attacked messages neither."""
    bound = proofs(0.8)["proofs"]
    rounds = bound[0].model_copy(update={"of": "all rounds", "view": "aggregate"})
    found = setting(
        "a", 1.2, proofs=(rounds, *bound), audits=(audit("proven").model_copy(update=fault),)
    )  # fmt: skip
    proof = there(found.proof("aggregate"))
    assert (proof.auc, proof.upper.how) == (1.0 if fault else 0.8, why)
    assert math.isinf(proof.upper.epsilon) is bool(fault)
    assert proven_auc(found) == (None if fault else 0.8)
    assert found.proof("individual") is None, "not computed is not nothing proven"


def test_an_auc_is_proven_if_it_is_in_every_run() -> None:
    assert proven_auc(setting("a", **proofs(0.8))) == 0.8
    assert proven_auc(setting("a", **proofs(None))) is None
    assert proven_auc(setting("a", **proofs(0.8, runs=1))) is None


@pytest.mark.parametrize(("verdict", "warned"), [("proven", False), ("not refuted", True)])
def test_missing_noise_that_a_proof_counts_in_is_no_warning(verdict: str, warned: bool) -> None:
    """Shares computed for the fewest messages of a secure sum: with all of them there is more noise."""
    lines = [f"{NOISE_SHARES}: a sum may contain only 51 of 100 messages", "FA103: lists"]
    warnings = tuple(map(CodedWarning.parse, lines))
    views = (audit(verdict), audit("refuted", "individual+lists"))

    def codes(**more: Any) -> list[str]:
        return [row["code"] for row in report(setting("a", warnings=warnings, **more)).warnings]

    assert codes(audits=views) == ([NOISE_SHARES, "FA103"] if warned else ["FA103"])
    assert codes() == [NOISE_SHARES, "FA103"]


def test_a_warning_is_said_once_with_all_that_it_is_about() -> None:
    def about(name: str, eps: float | None, text: str, **more: Any) -> ComparedPool:
        return setting(name, eps, warnings=(CodedWarning("FA101", text),), **more)

    found = report(
        about("published", 1.2, "w"),
        about("published", 10.0, "w"),
        about("published", 10.0, "w", click_model="informational"),
        about("sign", None, "v"),
        about("b", 2.0, "w"),
    )
    assert len(found.warnings) == 4
    assert [each.text for each in found.coded_warnings] == ["published, eps 1.2, 10; b, eps 2: w", "sign: v"]
