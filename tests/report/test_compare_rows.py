"""Rows of a comparison from made-up cells, against numbers by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_rel

from foltr_audit.core.results import AuditRecord, Estimate, GapRecord, UtilityRecord
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.experiments.comparison.grid import DefenseLabel
from foltr_audit.experiments.store import StoredRun
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.report.results.compare import (
    NOISE_SHARES,
    CellGroup,
    attack_rows_of,
    compare_row,
    curve_row,
    warning_rows,
    with_front,
)
from foltr_audit.report.results.compare_rows import ComparedAttackRow, ComparedWarningRow, CompareRow
from foltr_audit.report.tables.compare import warnings_by_defense
from foltr_audit.rng import Streams
from foltr_audit.utils.formatting import JsonValue
from tests.fixtures.comparisons import attack, result, same_queries, warning, where
from tests.fixtures.evidence import random_evidence
from tests.fixtures.run_results import run_of

NDCG = np.array([[0.2, 0.4, np.nan, 0.9, 0.1], [0.3, 0.2, np.nan, 0.8, 0.3]])
BASE = np.array([[0.5, 0.4, 0.2, 0.9, 0.3], [0.4, 0.6, 0.2, 0.7, 0.3]])
ONLINE = {"none": (0.5, 0.56, 0.53), "published": (0.4, 0.42, 0.02)}


def stored(name: str, run: int, ndcg: np.ndarray[Any, Any], **record: Any) -> StoredRun:
    """A made-up cell of one run."""
    defense = ["none"] if name == "none" else ["clip:norm=1.5", "gamma-laplace:eps=1.2,sensitivity=3"]
    spec = Spec.parse({"repetition": run, "defense": defense, "attack": {"click_models": ["perfect"]}})
    made = run_of(spec, eps_claimed=math.inf if name == "none" else 1.2)
    utility = UtilityRecord(
        ndcg=0.4,
        untrained=0.1,
        ceiling=0.9,
        validation=0.3 + 0.2 * run,
        evaluated_on="the test split",
        online_sum=5.0,
        online_mean=ONLINE[name][run],
        clipped=0.25,
        bytes_per_client=184.0 + run,
    )
    rounds = {
        "round": np.arange(2.0),
        "online_ndcg@10": np.array([0.1, 0.2]) + run,
        "offline_ndcg@10": np.array([0.3, 0.4]) + run,
        "online_ndcg@10/a": np.array([0.1, 0.3]),
        "online_ndcg@10/b": np.array([0.1, np.nan]) if run else np.array([0.1, 0.2]),
    }
    return StoredRun(
        spec=spec,
        record=made.record.model_copy(update={"groups": ("a", "b"), **record}),
        data=made.data,
        utility=utility,
        rounds=rounds,
        query_ndcg=ndcg,
        validation_ndcg=ndcg,
        evidence=random_evidence(run, 30),
    )


def setting(name: str, values: np.ndarray[Any, Any], **record: Any) -> CellGroup:
    label = DefenseLabel("none") if name == "none" else DefenseLabel("published", 1.2, 3.0)
    return CellGroup(label=label, cells=[stored(name, run, row, **record) for run, row in enumerate(values)])


def row_of(
    group: CellGroup, attacks: Sequence[ComparedAttackRow], base: CellGroup | None
) -> dict[str, JsonValue]:
    return compare_row(group, attacks, [], base, 2).plain()


def test_runs_in_which_no_sum_opened_are_counted() -> None:
    group = setting("published", NDCG)
    gap = GapRecord(what="nothing to read", why="no sum")
    silent = replace(group.cells[0], evidence=None, gaps=(gap,))
    some = CellGroup(label=group.label, cells=[silent, group.cells[1]])
    row = compare_row(some, attack_rows_of(some), [], None, 2)
    assert (row.runs_without_sum, row.unread, row.auc.known) == (1, False, True)
    none = CellGroup(label=group.label, cells=[silent, replace(silent, spec=group.cells[1].spec)])
    row = compare_row(none, attack_rows_of(none), [], None, 2)
    assert (row.runs_without_sum, row.unread, row.auc.known) == (2, True, False)


def test_no_sum_is_a_leak_of_chance_on_the_front() -> None:
    rows = [result(where("none"), []), result(where("guard"), [], runs_without_sum=where("guard").runs)]
    found = with_front(rows, [same_queries(0.4), same_queries(0.4)])
    assert [row.pareto for row in found] == [None, True]


def test_utility_against_the_same_by_hand() -> None:
    mine, base = setting("published", NDCG), setting("none", BASE)
    row = row_of(mine, attack_rows_of(mine), base)
    means = NDCG.mean(axis=0)[[0, 1, 3, 4]]
    test = ttest_rel(means, BASE.mean(axis=0)[[0, 1, 3, 4]])
    assert row["name"] == "published, eps 1.2"
    assert row["ndcg@10"] == pytest.approx(means.mean())
    assert row["ndcg@10_difference"] == pytest.approx((means - BASE.mean(axis=0)[[0, 1, 3, 4]]).mean())
    assert row["ndcg@10_p"] == pytest.approx(test.pvalue)
    names = np.array([f"0:{number:07d}" for number in (0, 1, 3, 4)])
    low, high = QueryBootstrap(names, Streams(1)).share(means).ci95 or (0.0, 0.0)
    assert row["ndcg@10_ci95"] == [low, high]
    online = ttest_rel(ONLINE["published"][:2], ONLINE["none"][:2])
    assert row["online_mean_p"] == pytest.approx(online.pvalue)
    assert row["online_mean"] == pytest.approx(0.41)
    assert (row["online_mean_ci95"], row["online_mean_difference_ci95"]) == (None, None)
    assert (row["bytes_per_client"], row["runs"]) == (184.5, 2)


def online_interval(values: np.ndarray[Any, Any]) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size))


def test_the_interval_over_runs_has_no_end_below_0() -> None:
    """Student's over .4, .42 and .02 is -.28 to .84, of the difference to no defense -.77 to .27."""
    three = np.concatenate([NDCG, NDCG[:1]])
    row = row_of(setting("published", three), [], setting("none", three))
    values = np.array(ONLINE["published"])
    half = online_interval(values)
    assert values.mean() < half
    assert row["online_mean_ci95"] == pytest.approx([0.0, values.mean() + half])
    apart = values - np.array(ONLINE["none"])
    ends = [apart.mean() - online_interval(apart), apart.mean() + online_interval(apart)]
    assert row["online_mean_difference_ci95"] == pytest.approx([max(ends[0], -1.0), ends[1]])


def test_one_run_has_no_interval_over_runs_and_the_base_no_difference() -> None:
    base = setting("none", BASE[:1])
    row = row_of(base, [], base)
    assert (row["online_mean_ci95"], row["ndcg@10_p"], row["attack"], row["auc"]) == (None, None, None, None)
    mine = setting("published", NDCG[:1])
    row = row_of(mine, [], base)
    assert row["online_mean_p"] is None
    assert row["online_mean_difference"] == pytest.approx(0.4 - 0.5)


def test_the_best_attack_is_the_one_with_the_highest_auc() -> None:
    place = where("none")
    rows = [attack(place, "prior", 0.9, baseline=True), attack(place, "first", 0.5, baseline=True)]
    rows += [attack(place, "olsr", math.nan), attack(place, "lad", 0.7), attack(place, "map", 0.6)]
    row = row_of(setting("none", BASE), rows, None)
    assert (row["attack"], row["auc"], row["attacks"]) == ("lad", 0.7, 3)
    assert (row["baseline"], row["baseline_auc"]) == ("prior", 0.9)


def test_the_worst_served_group_and_the_curves() -> None:
    made = setting("published", NDCG)
    row = row_of(made, [], None)
    assert (row["worst_served_group"], row["groups"]) == ("b", 2)
    assert row["worst_served_online"] == pytest.approx((0.15 + 0.1) / 2)
    curve = curve_row(made)
    assert curve.round == (0, 1)
    assert curve.offline == pytest.approx([0.8, 0.9])


def found(view: str, upper: float, unit: str = "interaction", verdict: str = "proven") -> AuditRecord:
    """What an audit found, made up."""
    bound = {"epsilon": upper, "delta": 0.0, "how": ""}
    shown = {"estimator": "e", "epsilon": 1.0, "ceiling": 4.0, "confidence": 0.95, "delta": 0.0}
    lower = {**shown, "trials": 9, "assumes": ""}
    run = {"unit": "client", "rounds": 9, "sampled": 1.0, "upper": bound, "always": bound}
    told: dict[str, Any] = dict.fromkeys(("canary", "pair", "score", "declared_why", "why"), "")
    told |= {"view": view, "unit": unit, "verdict": verdict, "declared": "as declared", "model": "first"}
    told |= {"colluders": None, "interactions": 1, "messages": 1, "claim": 1.2, "delta": 0.0}
    told |= {"upper": bound, "whole_run": run, "exact": None, "lower": lower, "estimates": [lower]}
    return AuditRecord.model_validate(told)


@pytest.mark.parametrize("turned", [False, True])
def test_of_several_units_the_worst_one_is_told(turned: bool) -> None:
    several = [found("individual", 1.2), found("individual", math.inf, "client", "refuted")]
    several += [found("aggregate", 1.0), found("aggregate", 5.0, "client", "not refuted")]
    row = row_of(replace(setting("none", BASE), findings=several[::-1] if turned else several), [], None)
    assert (row["verdict_individual"], row["unit_individual"]) == ("refuted", "client")
    assert (row["verdict_aggregate"], row["eps_proven_aggregate"]) == ("not refuted", 5.0)


def test_only_repetitions_that_both_have_are_held_against_each_other() -> None:
    mine, base = setting("published", NDCG), setting("none", BASE)
    row = row_of(replace(mine, cells=mine.cells[1:]), [], base)
    alone = row_of(replace(mine, cells=mine.cells[1:]), [], replace(base, cells=base.cells[1:]))
    names = [name for name in row if name.endswith(("_difference", "_p"))]
    assert names
    assert [row[name] for name in names] == [alone[name] for name in names]
    nothing = row_of(replace(mine, cells=mine.cells[:1]), [], replace(base, cells=base.cells[1:]))
    assert nothing["ndcg@10_difference"] is None


def test_claims_of_each_view_stand_apart() -> None:
    findings = [found("individual", math.inf), found("aggregate", 1.1)]
    row = row_of(replace(setting("none", BASE), findings=findings), [], None)
    assert (row["eps_proven_individual"], row["eps_proven_aggregate"]) == (float("inf"), 1.1)
    assert row["eps_measured_aggregate"] == 1.0
    assert "eps_proven_colluding" not in row


@pytest.mark.parametrize(("verdict", "warned"), [("proven", False), ("not refuted", True)])
def test_missing_noise_that_a_proof_counts_in_is_no_warning(verdict: str, warned: bool) -> None:
    """Shares computed for the fewest messages of a secure sum: with all of them there is more noise."""
    lines = [f"{NOISE_SHARES}: a sum may contain only 51 of 100 messages", "FA103: lists"]
    made = setting("published", NDCG, warnings=tuple(map(CodedWarning.parse, lines)))
    views = [found("individual", 1.2, verdict=verdict)]
    views += [found("individual+lists", math.inf, verdict="refuted")]
    codes = [row.code for row in warning_rows(replace(made, findings=views))]
    assert codes == ([NOISE_SHARES, "FA103"] if warned else ["FA103"])
    assert [row.code for row in warning_rows(made)] == [NOISE_SHARES, "FA103"]


def test_rows_are_beaten_by_those_of_their_own_world_only() -> None:
    def row(world: str, name: str, auc: float | None, ndcg: float) -> CompareRow:
        place = where(name, click_model=world)
        alone = Estimate(math.nan if auc is None else auc)
        return result(place, [attack(place, "map", auc)], ndcg, auc=alone)

    rows = [row("a", "x", 0.9, 0.3), row("b", "y", 0.6, 0.5), row("a", "z", 0.8, 0.4), row("a", "w", None, 1)]
    fronted = with_front(rows, [same_queries(one.ndcg.value) for one in rows])
    found = {one.setting.name: one for one in fronted}
    assert found["x"].dominated_by == ("z",)
    assert (found["y"].pareto, found["z"].pareto, found["w"].pareto) == (True, True, None)


def test_a_stored_cell_is_what_was_run_and_damage_is_found(tmp_path: Path) -> None:

    from foltr_audit.errors import TraceError
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.experiments.comparison.runner import run_cell
    from foltr_audit.experiments.runner import Runner
    from foltr_audit.experiments.store import read_run

    table = {"data": {"source": "synthetic:mq2007:60"}, "population": {"clients": 5}, "train": {"rounds": 2}}
    attack = {"methods": ["olsr"], "click_models": ["perfect"], "min_documents": 5}
    spec = Spec.parse({**table, "attack": attack})
    study = Runner(with_undefended=False)
    folder = ComparisonFolder.create(tmp_path, resume=False, overwrite=False)
    folder.write(spec, run_cell(spec, study))
    cell, found = study.run(spec), folder.read(spec)
    assert found.utility.ndcg == cell.trained.ndcg
    assert found.query_ndcg.mean() == pytest.approx(cell.trained.ndcg)
    evidence = cell.attacks.evidence["perfect"]
    assert found.evidence is not None
    np.testing.assert_array_equal(found.evidence.clicks, evidence.clicks)
    for label, guessed in evidence.guessed.items():
        np.testing.assert_array_equal(found.evidence.guessed[label].scores, guessed.scores)
    where = folder.cell(spec)
    packed = bytearray((where / "arrays.npz").read_bytes())
    packed[len(packed) // 2] ^= 1
    (where / "arrays.npz").write_bytes(bytes(packed))
    with pytest.raises(TraceError, match=r"arrays\.npz: damaged"):
        read_run(where, spec)


def test_a_warning_is_said_once_with_all_that_it_is_about() -> None:
    def row(alternative: str, eps: float | None, text: str) -> ComparedWarningRow:
        return warning("x", text, eps=eps, alternative=alternative)

    rows = [row("published", 1.2, "w"), row("published", 10.0, "w"), row("published", 10.0, "w")]
    rows += [row("sign", None, "v"), row("b", 2.0, "w")]
    told = [each.text for each in warnings_by_defense(rows)]
    assert told == ["published, eps 1.2, 10; b, eps 2: w", "sign: v"]
