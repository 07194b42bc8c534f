"""One row of a comparison: what one defense claims, leaks and costs, in one world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG, mean_of_rounds
from foltr_audit.experiments.comparison.alternatives import DefenseAlternative
from foltr_audit.experiments.comparison.cells import CellRecord
from foltr_audit.experiments.comparison.expansion import DefenseLabel
from foltr_audit.experiments.comparison.facts import AuditFacts
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.significance import mean_interval, paired_t_test
from foltr_audit.privacy.observer_views import VIEWS
from foltr_audit.report.results.attack_rows import scored
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.group_success import scored_groups
from foltr_audit.report.results.pareto import ByQuery
from foltr_audit.rng import Streams
from foltr_audit.simulation.intent_metrics import evaluated_on
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.rows import Estimate

BEST = ("accuracy", "precision", "recall", "f1", "auc", "tpr_at_1")
"""Metrics of the best attack, named as in `scoring.METRICS`."""


@dataclass(frozen=True, kw_only=True)
class CellGroup:
    """The cells of one defense in one world: they differ in repetition and fold only.

    Attributes:
        label: the defense's name.
        cells: the attacked cells.
        findings: what the audit of its claim found; empty without one.
    """

    label: DefenseLabel
    cells: list[CellRecord]
    findings: list[AuditFacts] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What the row is called, e.g. `published, eps 1.2`."""
        return self.label.text

    @property
    def where(self) -> Row:
        """The columns that name the row."""
        spec, facts = self.cells[0].spec, self.cells[0].facts
        return {
            "data": spec.data.source,
            "scenario": spec.population.scenario,
            "click_model": spec.train.click_model,
            "learner": facts.learner,
            "pdgd": facts.pdgd,
            "name": self.name,
            "alternative": self.label.alternative,
            "eps": self.label.eps,
            "sensitivity": self.label.sensitivity,
            "defense": "+".join(spec.defense),
            "eps_claimed": self._claimed(),
            "runs": len(self.cells),
        }

    def _claimed(self) -> float:
        """The epsilon that a chain is proven for if its name promises a proof, else what its parts claim."""
        promised = DefenseAlternative(self.label.alternative).proven(self.label.eps, 0.0)
        return float(self.cells[0].facts.eps_claimed if promised is None else promised["claim"])

    @property
    def streams(self) -> Streams:
        """Streams of the bootstrap."""
        return Streams(self.cells[0].spec.seed)

    def evidence(self) -> ClickEvidence | None:
        """The judged lists of all repetitions."""
        pieces = [cell.evidence for cell in self.cells if cell.evidence is not None]
        return ClickEvidence.combined(pieces) if pieces else None

    def mean(self, name: str) -> float | None:
        """Mean of a fact over the repetitions; None where it is not known of all."""
        values = [getattr(cell.facts, name) for cell in self.cells]
        return None if None in values else float(np.mean([float(value) for value in values]))

    def column(self, name: str) -> Floats:
        """A fact of each repetition."""
        return np.array([float(getattr(cell.facts, name)) for cell in self.cells])

    def paired(self, other: CellGroup) -> tuple[CellGroup, CellGroup]:
        """This setting and another one with the repetitions that both have, in the same order."""
        mine, theirs = self._by_run(), other._by_run()
        both = [run for run in mine if run in theirs]
        return (
            replace(self, cells=[mine[run] for run in both]),
            replace(other, cells=[theirs[run] for run in both]),
        )

    def _by_run(self) -> dict[tuple[int, int], CellRecord]:
        return {(cell.spec.repetition, cell.spec.data.fold): cell for cell in self.cells}

    def query_ndcg(self) -> ByQuery:
        """Names of the evaluated queries that count, by fold, and their nDCG, a mean over repetitions."""
        found: dict[str, list[float]] = {}
        for cell in self.cells:
            for number, value in enumerate(cell.query_ndcg.tolist()):
                if not np.isnan(value):
                    found.setdefault(f"{cell.spec.data.fold}:{number:07d}", []).append(value)
        names = sorted(found)
        return np.array(names, dtype=np.str_), np.array([float(np.mean(found[name])) for name in names])


def setting_row(setting: CellGroup, attacks: Sequence[Row], base: CellGroup | None) -> Row:
    """The row of a setting.

    Args:
        setting: its cells.
        attacks: its rows of `attack_rows_of`.
        base: the setting without a defense to compare it with; None if there is none.
    """
    return {
        **setting.where,
        **_claims(setting.findings),
        **_best(attacks),
        **_utility(setting, base),
        "bytes_per_client": setting.mean("bytes_per_client"),
        **_worst_group(setting),
    }


def attack_rows_of(setting: CellGroup) -> list[Row]:
    """One row per guesser, baselines first, with the names of the setting."""
    evidence = setting.evidence()
    if evidence is None:
        return []
    where = {"click_model": setting.where["click_model"], **setting.where, "view": "individual"}
    return [
        {"method": method, "baseline": baseline, **where, **found.plain()}
        for method, baseline, found in scored(evidence, setting.streams)
    ]


def refused_rows_of(setting: CellGroup) -> list[Row]:
    """One row per attack that could not run on the setting, with the reason."""
    evidence = setting.evidence()
    refused = {} if evidence is None else evidence.refused
    return [{"method": label, **setting.where, "reason": why} for label, why in refused.items()]


def _claims(findings: Sequence[AuditFacts]) -> Row:
    """Claimed, proven, exact and measured epsilon of each audited view; of several units the worst one."""
    row: Row = {}
    for view in VIEWS:
        several = [one for one in findings if one.view == view]
        if not several:
            continue
        found = max(several, key=_badness)
        exact = found.exact
        row |= {
            f"eps_claimed_{view}": found.eps_claimed,
            f"eps_proven_{view}": found.upper.epsilon,
            f"eps_exact_{view}": exact,
            f"eps_measured_{view}": found.lower.epsilon,
            f"eps_ceiling_{view}": found.lower.ceiling,
            f"delta_{view}": found.delta,
            f"verdict_{view}": found.verdict,
            f"unit_{view}": found.unit,
        }
    return row


def _badness(finding: AuditFacts) -> tuple[int, float, float]:
    """How bad a finding is: false claims before open ones before proven ones, then by their bounds."""
    verdict = finding.verdict
    place = 2 if verdict in (*FALSE, CONTRADICTION) else 0 if verdict == "proven" else 1
    return place, finding.upper.epsilon, finding.lower.epsilon


def _best(attacks: Sequence[Row]) -> Row:
    """The attack with the highest AUC, and the guess without a message with the highest."""
    real = [row for row in attacks if not row["baseline"]]
    without = [row for row in attacks if row["baseline"]]
    best, baseline = (max(rows, key=_auc, default={}) for rows in (real, without))
    row: Row = {"attack": best.get("method"), "attacks": len(real)}
    for name in BEST:
        row |= {name: best.get(name), f"{name}_ci95": best.get(f"{name}_ci95")}
    row |= {"lists": best.get("lists"), "baseline": baseline.get("method")}
    return row | {"baseline_auc": baseline.get("auc")}


def _auc(row: Row) -> float:
    value = row["auc"]
    return -1.0 if value is None or np.isnan(value) else float(value)


def _utility(setting: CellGroup, base: CellGroup | None) -> Row:
    """Offline and online nDCG@10 with intervals, and against no defense.

    Offline: interval by bootstrap over queries, test over queries that both have. Online: Student's, over
    three or more runs.
    """
    names, values = setting.query_ndcg()
    nothing = Estimate(float("nan"), None)
    offline = QueryBootstrap(names, setting.streams).share(values) if names.size else nothing
    row = {
        **columns("ndcg@10", offline),
        "evaluated_on": evaluated_on([cell.rounds for cell in setting.cells]),
        "ndcg@10_ceiling": setting.mean("ceiling"),
        "ndcg@10_untrained": setting.mean("untrained"),
        "ndcg@10_validation": setting.mean("validation"),
        **columns("online_mean", _over_runs(setting.column("online_mean"))),
        "online_sum": setting.mean("online_sum"),
        "clipped": setting.mean("clipped"),
    }
    if base is None or base.cells[0].spec == setting.cells[0].spec:
        tested = ("difference", "difference_ci95", "p")
        return row | {f"{name}_{what}": None for name in ("ndcg@10", "online_mean") for what in tested}
    return row | _differences(*setting.paired(base))


def _differences(setting: CellGroup, base: CellGroup) -> Row:
    """How much better a setting is than no defense, over the repetitions that both have."""
    if not setting.cells:
        empty = np.empty(0)
        return _tested("ndcg@10", empty, empty) | _tested("online_mean", empty, empty)
    names, values = setting.query_ndcg()
    base_names, base_values = base.query_ndcg()
    both = np.intersect1d(names, base_names)
    mine, theirs = values[np.isin(names, both)], base_values[np.isin(base_names, both)]
    online = setting.column("online_mean"), base.column("online_mean")
    return _tested("ndcg@10", mine, theirs) | _tested("online_mean", *online)


def _tested(name: str, mine: Floats, theirs: Floats) -> Row:
    """Mean difference, its interval and p-value (paired t-test, not corrected), of two or more pairs.

    The interval is one within -1 and 1, of `FEWEST` or more pairs.
    """
    known = np.isfinite(mine) & np.isfinite(theirs)
    mine, theirs = mine[known], theirs[known]
    if mine.size < 2:
        difference = float(mine.mean() - theirs.mean()) if mine.size else None
        return {f"{name}_difference": difference, f"{name}_difference_ci95": None, f"{name}_p": None}
    test = paired_t_test(mine, theirs)
    ends = None if test.ends is None else [max(test.ends[0], -1.0), min(test.ends[1], 1.0)]
    return {f"{name}_difference": test.difference, f"{name}_difference_ci95": ends, f"{name}_p": test.p}


def _over_runs(values: Floats) -> Estimate:
    """Mean nDCG, with Student's interval within 0 and 1 over `FEWEST` or more runs in which it is defined."""
    values = values[np.isfinite(values)]
    return Estimate(float(values.mean()) if values.size else float("nan"), mean_interval(values))


def _worst_group(setting: CellGroup) -> Row:
    """The group of clients that is served worst."""
    rows = served_rows(setting)
    worst = rows[0] if rows else {}
    return {
        "worst_served_group": worst.get("group"),
        "worst_served_online": worst.get("online_mean"),
        "groups": len(rows) or None,
    }


def served_rows(setting: CellGroup) -> list[Row]:
    """Mean online nDCG@10 of each group of clients, served worst first; none where clients do not differ."""
    served = {
        name: float(np.mean([mean_of_rounds(cell.rounds[f"{ONLINE_NDCG}/{name}"]) for cell in setting.cells]))
        for name in setting.cells[0].facts.groups
        if all(f"{ONLINE_NDCG}/{name}" in cell.rounds for cell in setting.cells)
    }
    return [
        {**setting.where, "group": name, "online_mean": served[name]}
        for name in sorted(served, key=lambda name: served[name])
    ]


def group_attack_rows(setting: CellGroup) -> list[Row]:
    """Attack success by group of clients, hit hardest first; none where clients do not differ."""
    evidence = setting.evidence()
    if evidence is None:
        return []
    return [
        {"method": method, "baseline": baseline, **setting.where, **found.plain()}
        for method, baseline, found in scored_groups(evidence, setting.streams)
    ]


def columns(name: str, score: Estimate) -> Row:
    """A score and its interval, None where unknown."""
    interval = score.ci95
    return {name: known(score.value), f"{name}_ci95": None if interval is None else list(interval)}


def known(value: float | None) -> float | None:
    """A number, or None for NaN, which JSON does not have."""
    return None if value is None or np.isnan(value) else value


def curve_row(setting: CellGroup) -> Row:
    """Means over runs of online and offline nDCG@10 by round."""
    first = setting.cells[0].rounds
    curves = {
        name: np.mean([cell.rounds[name] for cell in setting.cells], axis=0)
        for name in (ONLINE_NDCG, OFFLINE_NDCG)
    }
    return {
        **setting.where,
        "round": first["round"].astype(int).tolist(),
        **{name: values.tolist() for name, values in curves.items()},
    }
