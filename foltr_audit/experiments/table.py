"""The cells of a comparison, pooled: a pool is what one row of its tables is about.

Pools come in the order of their grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.ranking_metrics import ONLINE_NDCG, mean_of_rounds
from foltr_audit.core.results import (
    UNKNOWN,
    AttackRecord,
    AuditRecord,
    DataRecord,
    Estimate,
    GapRecord,
    ProofRecord,
    RunRecord,
    UtilityRecord,
)
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.data import path_name
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.errors import TraceError
from foltr_audit.experiments.comparison.alternatives import DefenseAlternative
from foltr_audit.experiments.comparison.grid import ATTACKS, CellPlan, DefenseLabel
from foltr_audit.experiments.run import mean_utility
from foltr_audit.experiments.store import CURVES, StoredRun
from foltr_audit.judge.bootstrap import QueryBootstrap, QueryMetric, selected
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.scoring import click_records, group_records
from foltr_audit.judge.significance import MeanBounds, mean_bounds, mean_interval, paired_t_test
from foltr_audit.privacy.bounds import UpperBound
from foltr_audit.privacy.observer_views import VIEWS, attacked_view, sees_lists, without_lists
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.progress import SILENT, Progress

if TYPE_CHECKING:
    from foltr_audit.experiments.comparison.folder import ComparisonFolder

ByQuery = tuple[NDArray[np.str_], Floats]
"""Names of queries in rising order, and the nDCG of each."""

WorldKey = tuple[str, str, str]
"""Data, scenario and click model, which pools must share to be compared with each other."""

PoolKey = tuple[str, str]
"""Learner and name, which tell a pool from the others of its world."""


NOISE_SHARES = "FA102"
"""The warning of a message, or a sum, that holds only a part of the noise."""


class Difference(NamedTuple):
    """How much better a pool is than no defense on average, over what both have.

    `p` is that of a paired t-test, not corrected; None where there is nothing to test. `loss` is the
    difference the other way round with its bounds; None where nothing is compared.
    """

    size: Estimate = UNKNOWN
    p: float | None = None
    loss: MeanBounds | None = None

    @property
    def upper_loss(self) -> float:
        """One-sided 95 % upper bound of the loss; 1, the largest there is, where nothing is known."""
        return 1.0 if self.loss is None else self.loss.upper

    def queries_needed(self, limit: float) -> int | None:
        """About how many queries (or runs) would show a loss to be within a limit, or above it.

        None if no number would, or nothing is compared.
        """
        return None if self.loss is None else self.loss.needed(limit)


NOT_TESTED = Difference()

NOTHING_LOST = Difference(Estimate(0.0, (0.0, 0.0)), loss=MeanBounds(0.0, 0.0, 0, (0.0, 0.0), 0.0, 0.0))
"""The difference of no defense to itself."""


@dataclass(frozen=True, eq=False)
class BestAttack:
    """The attack with the highest AUC, and the best guesses beside it; None where none was scored.

    It is the luckiest of `ran` too, which the intervals of its numbers allow for.
    """

    attack: AttackRecord | None
    ran: Sequence[AttackRecord]

    @cached_property
    def auc(self) -> Estimate:
        return self._selected("auc")

    @cached_property
    def above_guess(self) -> Estimate:
        """Its AUC less that of the best guess of a server that does not know the grades of documents."""
        return self._selected("above_guess")

    @cached_property
    def above_grades(self) -> Estimate:
        """As `above_guess`, of a server that knows them; not defined without such a guess."""
        return self._selected("above_grades")

    def _selected(self, name: str) -> Estimate:
        if self.attack is None:
            return UNKNOWN
        return selected(self.attack.metric(name), [record.metric(name) for record in self.ran])

    @property
    def guess(self) -> str | None:
        """That guess."""
        return None if self.attack is None else self.attack.more["guess"]

    @property
    def guess_auc(self) -> float | None:
        return None if self.attack is None else self.attack.more["guess_auc"]

    @property
    def grades_auc(self) -> float | None:
        """The AUC of the best guess of a server that knows the grades; None without one."""
        return None if self.attack is None else self.attack.more["grades_auc"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Attacked:
    """What attacks find on what one server sees, guesses first; `spec` is that of the first cell."""

    spec: Spec
    attacks: tuple[AttackRecord, ...] = ()
    gaps: tuple[GapRecord, ...] = ()

    @property
    def runs(self) -> int:
        """Cells whose lists are judged together."""
        return 1

    @property
    def view(self) -> str:
        """The view of that server, a name of `VIEWS`."""
        return view_of(self.spec)

    @cached_property
    def best(self) -> BestAttack:
        """The attack with the highest AUC."""
        ran = [record for record in self.attacks if record.role == "attack"]
        aucs = [record.metric("auc") for record in ran]
        known = [auc.value if auc.known else -1.0 for auc in aucs]
        return BestAttack(ran[int(np.argmax(known))] if ran else None, ran)

    @property
    def refused(self) -> dict[str, str]:
        """Why attacks could not run, by their names."""
        return {gap.method: gap.why for gap in self.gaps if gap.what == "refused"}

    @property
    def without_sum(self) -> int:
        """Cells in which no round opened a sum, so that attacks had nothing to read."""
        return sum(gap.what == "nothing to read" for gap in self.gaps)

    @property
    def unread(self) -> bool:
        """Whether attacks had nothing to read in any cell, which is no success of 0."""
        return 0 < self.runs == self.without_sum


def view_of(spec: Spec) -> str:
    """The view of the server that a Spec attacks as.

    It knows the shown lists, but a list that was made before its clicks tells nothing of them: an attack on
    such messages is held against the proof for servers that see no lists.
    """
    attack = spec.attack or AttackSpec()
    view = attacked_view(attack.view, attack.hide)
    if attack.colluders:
        view = view.replace("aggregate", "colluding")
    return without_lists(view) if attack.of_one_search else view


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedPool(Attacked):
    """The attacked cells of one defense in one world: they differ in repetition and fold only.

    `asked` is how many cells the grid has; some may be missing. `spec` and `record` are those of the first
    cell, `data` and `utilities` those of each. `eps_claimed` is the epsilon that the name promises a proof
    of, else what the chain claims; infinite without one. Attacks and groups are judged on the lists of all
    cells, guesses first; `others` are what other servers see. `queries` are means over repetitions; intervals
    of `ndcg` are over queries, those of `online` over cells. `served` holds the online nDCG@10 of each group
    of clients, served worst first; empty where they do not differ.
    """

    label: DefenseLabel
    asked: int
    record: RunRecord
    eps_claimed: float
    data: tuple[DataRecord, ...]
    utilities: tuple[UtilityRecord, ...]
    proofs: tuple[ProofRecord, ...] = ()
    audits: tuple[AuditRecord, ...] = ()
    groups: tuple[AttackRecord, ...] = ()
    others: tuple[Attacked, ...] = ()
    queries: ByQuery
    ndcg: Estimate
    online: Estimate
    difference: Difference = NOT_TESTED
    online_difference: Difference = NOT_TESTED
    curves: Mapping[str, Floats]
    served: Mapping[str, float]

    @property
    def world(self) -> WorldKey:
        return path_name(self.spec.data.source), self.spec.population.scenario, self.spec.train.click_model

    @property
    def key(self) -> PoolKey:
        return self.record.learner, self.name

    @property
    def name(self) -> str:
        """Its defense, e.g. `published, eps 1.2`."""
        return self.label.text

    @property
    def chain(self) -> str:
        return "+".join(self.spec.defense)

    @property
    def defended(self) -> bool:
        return self.label.alternative != NO_DEFENSE

    @property
    def runs(self) -> int:
        return len(self.utilities)

    @property
    def attacked(self) -> tuple[Attacked, ...]:
        """What attacks find on what each server sees."""
        return self, *self.others

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on its claim by audited view; only of views with a claim."""
        worst = {view: worst_audit(self, view) for view in VIEWS}
        return {view: audit.verdict for view, audit in worst.items() if audit and audit.claim is not None}

    def proof(self, view: str) -> ProofRecord | None:
        """What is proven for an observer of all rounds, see `proof_of`."""
        return proof_of(self.proofs, self.audits, view)

    def mean(self, name: str) -> float | None:
        """Mean of a field of its `UtilityRecord`s; None where one of them does not know it."""
        return mean_utility(self.utilities, name)


def proof_of(proofs: Iterable[ProofRecord], audits: Sequence[AuditRecord], view: str) -> ProofRecord | None:
    """What is proven of a chain for an observer of all rounds; None where it was not computed.

    That is nothing where an audit of the chain found a broken link, or contradicts a proof.
    """
    found = [proof for proof in proofs if proof.of == "all rounds" and proof.view == view]
    return _if_it_holds(found[0], audits) if found else None


def proven_auc(pool: ComparedPool) -> float | None:
    """The largest AUC of any attack on the attacked messages, by proof; None where nothing is proven."""
    known = [_if_it_holds(proof, pool.audits).auc for proof in pool.proofs if proof.of == "attacked"]
    if len(known) < pool.runs or any(auc is None or auc >= 1 for auc in known):
        return None
    return max(auc for auc in known if auc is not None)


def _if_it_holds(proof: ProofRecord, audits: Sequence[AuditRecord]) -> ProofRecord:
    broken = [audit.declared_why for audit in audits if audit.declared == "broken"]
    wrong = [audit.why for audit in audits if audit.verdict == CONTRADICTION]
    if not broken and not wrong:
        return proof
    found = "a link does less than it declares" if broken else "its audit contradicts it"
    how = f"{found}: {[*broken, *wrong][0]}"
    nothing = UpperBound(epsilon=math.inf, delta=proof.upper.delta, how=how)
    return proof.model_copy(update={"upper": nothing, "auc": 1.0})


def warnings_of(pool: ComparedPool) -> Iterator[CodedWarning]:
    """The warnings about a pool, but for missing noise that the proof of its claim counts in."""
    verdicts = {audit.verdict for audit in pool.audits if not sees_lists(audit.view)}
    for warning in dict.fromkeys(pool.record.warnings):
        if warning.code != NOISE_SHARES or verdicts != {"proven"}:
            yield warning


def worst_audit(pool: ComparedPool, view: str) -> AuditRecord | None:
    """What the audit found of a view; of several units and canaries the worst."""

    def badness(audit: AuditRecord) -> tuple[int, float, float]:
        """False claims before open ones before proven ones, then by their bounds."""
        place = 2 if audit.verdict in (*FALSE, CONTRADICTION) else 0 if audit.verdict == "proven" else 1
        return place, audit.upper.epsilon, audit.lower.epsilon

    return max((audit for audit in pool.audits if audit.view == view), key=badness, default=None)


def hit_hardest(pool: ComparedPool) -> AttackRecord | None:
    """The group of clients that the best attack hits hardest; None where clients do not differ."""
    best = pool.best.attack
    if best is None:
        return None
    return next((one for one in pool.groups if one.method == best.method and one.place == 1), None)


def cells_by_pool(cells: Iterable[CellPlan]) -> dict[Spec, list[CellPlan]]:
    """The cells of each pool, in order: they share everything but repetition and fold."""
    pools: dict[Spec, list[CellPlan]] = {}
    for cell in cells:
        shared = cell.spec.model_copy(
            update={"repetition": 0, "data": cell.spec.data.model_copy(update={"fold": 0})}
        )
        pools.setdefault(shared, []).append(cell)
    return pools


def chain_of(spec: Spec) -> tuple[str, str, tuple[str, ...]]:
    """What cells share with the audit of their claim."""
    return spec.train.learner, spec.population.scenario, spec.defense


def read_pools(
    folder: ComparisonFolder,
    planned: Sequence[CellPlan],
    done: Sequence[CellPlan],
    progress: Progress = SILENT,
) -> tuple[ComparedPool, ...]:
    """The pools of cells that are done, of all planned ones; a `TraceError` where their data differ.

    Each cell is read once, so that judged lists of one pool are in memory.
    """
    asked = cells_by_pool(planned)
    pooled = cells_by_pool(cell for cell in done if cell.kind == "attack")
    audits = {chain_of(cell.spec): folder.read(cell.spec).audits for cell in done if cell.kind == "audit"}
    others: dict[tuple[object, ...], list[Attacked]] = {}
    for cell in done:
        if cell.kind in ATTACKS[1:]:
            system = *chain_of(cell.spec), cell.spec.train.click_model
            others.setdefault(system, []).append(_attacked([folder.read(cell.spec)])[0])
    bases: dict[tuple[str, str, str], _Runs] = {}
    pools: dict[Spec, ComparedPool] = {}
    with progress.task("report", len(pooled)) as tick:
        for key in sorted(pooled, key=lambda key: pooled[key][0].label.alternative != NO_DEFENSE):
            spec, label = pooled[key][0].spec, pooled[key][0].label
            runs = [folder.read(cell.spec) for cell in pooled[key]]
            place = spec.train.learner, spec.population.scenario, spec.train.click_model
            pool = replace(
                _pool(runs, label, audits.get(chain_of(spec), ())),
                asked=len(asked[key]),
                others=tuple(others.get((*chain_of(spec), spec.train.click_model), ())),
            )
            mine = {(run.spec.repetition, run.spec.data.fold): replace(run, evidence=None) for run in runs}
            if label.alternative == NO_DEFENSE:
                bases[place] = mine
            elif place in bases:
                pool = _against(pool, mine, bases[place])
            pools[key] = pool
            tick()
    _refuse_mixed_data(folder, pools.values())
    return tuple(pools[key] for key in pooled)


_Runs = dict[tuple[int, int], "StoredRun"]
"""Runs by repetition and fold."""


def _refuse_mixed_data(folder: ComparisonFolder, pools: Iterable[ComparedPool]) -> None:
    fingerprints: dict[int, str] = {}
    for record in (record for pool in pools for record in pool.data):
        first = fingerprints.setdefault(record.fold, record.fingerprint)
        if first != record.fingerprint:
            raise TraceError(
                f"{folder.path}: cells of different data: fingerprints {first[:12]} and "
                f"{record.fingerprint[:12]} of one fold; expected one, make it again with --overwrite"
            )


def _pool(runs: Sequence[StoredRun], label: DefenseLabel, audits: tuple[AuditRecord, ...]) -> ComparedPool:
    """A pool that is compared with no other one yet."""
    first, streams = runs[0], Streams(runs[0].spec.seed)
    seen, groups = _attacked(runs)
    promised = DefenseAlternative(label.alternative).proven(label.eps, 0.0)
    claim = first.record.claim if promised is None else promised["claim"]
    names, values = _queries(runs)
    online = _online(runs)
    online = online[np.isfinite(online)]
    attacked = [proof for run in runs for proof in run.proofs if proof.of == "attacked"]
    of_groups = {
        group: [run.rounds.get(f"{ONLINE_NDCG}/{group}") for run in runs] for group in first.record.groups
    }
    served = {
        group: float(np.mean([mean_of_rounds(one) for one in rounds if one is not None]))
        for group, rounds in of_groups.items()
        if all(one is not None for one in rounds)
    }
    return ComparedPool(
        label=label,
        spec=first.spec,
        asked=len(runs),
        record=first.record,
        eps_claimed=math.inf if claim is None else claim,
        data=tuple(run.data for run in runs),
        utilities=tuple(run.utility for run in runs),
        proofs=(*(proof for proof in first.proofs if proof.of != "attacked"), *attacked),
        audits=audits,
        attacks=seen.attacks,
        groups=groups,
        gaps=seen.gaps,
        queries=(names, values),
        ndcg=QueryBootstrap(names, streams).share(values),
        online=Estimate(float(online.mean()) if online.size else math.nan, mean_interval(online)),
        curves={name: np.mean([run.rounds[name] for run in runs], axis=0) for name in CURVES},
        served=dict(sorted(served.items(), key=lambda pair: pair[1])),
    )


def _attacked(runs: Sequence[StoredRun]) -> tuple[Attacked, tuple[AttackRecord, ...]]:
    """What attacks find on the lists of all runs, and on those of each group of clients."""
    pieces = [run.evidence for run in runs if run.evidence is not None]
    gaps = [gap for run in runs for gap in run.gaps if gap.what == "nothing to read"]
    if not pieces:
        return Attacked(spec=runs[0].spec, gaps=tuple(gaps)), ()
    evidence, streams = ClickEvidence.combined(pieces), Streams(runs[0].spec.seed)
    refused = [
        GapRecord(what="refused", method=name, why=why) for name, why in sorted(evidence.refused.items())
    ]
    attacks = _sealed(click_records(evidence, streams))
    groups = _sealed(group_records(evidence, streams))
    return Attacked(spec=runs[0].spec, attacks=attacks, gaps=(*refused, *gaps)), groups


def _sealed(records: Iterable[AttackRecord]) -> tuple[AttackRecord, ...]:
    """The records with their intervals, which no longer hold the lists that these are made of."""

    def sealed(metric: Estimate) -> Estimate:
        return metric if isinstance(metric, QueryMetric) else Estimate(metric.value, metric.ci95)

    return tuple(
        record.model_copy(update={"metrics": {name: sealed(one) for name, one in record.metrics.items()}})
        for record in records
    )


def _queries(runs: Iterable[StoredRun]) -> ByQuery:
    """Names of the queries that count, by fold, and their nDCG, a mean over runs."""
    values: dict[str, list[float]] = {}
    for run in runs:
        for number, value in enumerate(run.query_ndcg.tolist()):
            if not math.isnan(value):
                values.setdefault(f"{run.spec.data.fold}:{number:07d}", []).append(value)
    names = sorted(values)
    return np.array(names, dtype=np.str_), np.array([float(np.mean(values[name])) for name in names])


def _online(runs: Iterable[StoredRun]) -> Floats:
    """The mean online nDCG of each run, NaN where it is not known."""
    return np.array([run.utility.online_mean for run in runs], dtype=np.float64)


def _against(pool: ComparedPool, mine: _Runs, base: _Runs) -> ComparedPool:
    """The pool with its differences to no defense, over repetitions, and offline queries, that both have."""
    both = [key for key in mine if key in base]
    if not both:
        return pool
    ours, theirs = ([runs[key] for key in both] for runs in (mine, base))
    (names, values), (base_names, base_values) = _queries(ours), _queries(theirs)
    return replace(
        pool,
        difference=over_queries(values[np.isin(names, base_names)], base_values[np.isin(base_names, names)]),
        online_difference=_over_runs(_online(ours), _online(theirs)),
    )


def over_queries(mine: Floats, theirs: Floats) -> Difference:
    """The mean difference of the nDCG of queries, each (n,), over those where both are known."""
    known = np.isfinite(mine) & np.isfinite(theirs)
    mine, theirs = mine[known], theirs[known]
    loss = mean_bounds(theirs - mine, -1.0)
    ends = None if loss.interval is None else (-loss.interval[1], -loss.interval[0])
    p = paired_t_test(mine, theirs).p if mine.size > 1 else None
    return Difference(Estimate(0.0 - loss.mean, ends), p, loss)


def _over_runs(mine: Floats, theirs: Floats) -> Difference:
    """The mean difference of runs in which both are known; its interval is Student's, within -1 and 1."""
    known = np.isfinite(mine) & np.isfinite(theirs)
    apart = mine[known] - theirs[known]
    if apart.size < 2:
        return Difference(Estimate(float(apart.mean()) if apart.size else math.nan))
    p = paired_t_test(mine[known], theirs[known]).p
    return Difference(Estimate(float(apart.mean()), mean_interval(apart, -1.0)), p)
