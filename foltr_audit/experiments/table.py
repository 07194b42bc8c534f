"""The cells of a comparison, pooled: a pool is what one row of its tables is about."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG, mean_of_rounds
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
from foltr_audit.core.settings.experiment import Spec, flat
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.errors import TraceError
from foltr_audit.experiments.comparison.alternatives import DefenseAlternative
from foltr_audit.experiments.comparison.grid import ATTACKS, CellPlan, DefenseLabel
from foltr_audit.experiments.run import mean_utility
from foltr_audit.judge.bootstrap import QueryBootstrap, QueryMetric, selected
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.scoring import click_records, group_records
from foltr_audit.judge.significance import MeanBounds, mean_bounds, mean_interval, paired_t_test
from foltr_audit.privacy.bounds import UpperBound
from foltr_audit.privacy.observer_views import VIEWS, attacked_view, sees_lists, without_lists
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.progress import SILENT, Progress

if TYPE_CHECKING:
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.experiments.store import StoredRun

ByQuery = tuple[NDArray[np.str_], Floats]
"""Names of queries in rising order, and the nDCG of each."""

WorldKey = tuple[str, str, str]
"""Data, scenario and click model, which pools must share to be compared with each other."""

PoolKey = tuple[str, str]
"""Learner and name, which tell a pool from the others of its world."""

CURVES = ("round", ONLINE_NDCG, OFFLINE_NDCG)


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


def _or_lowest(auc: Estimate) -> float:
    return auc.value if auc.known else -1.0


class Attacked:
    """What attacks find on what one server sees, guesses first; `spec` is that of the first cell."""

    spec: Spec
    attacks: tuple[AttackRecord, ...]
    gaps: tuple[GapRecord, ...]

    @property
    def runs(self) -> int:
        """Cells whose lists are judged together."""
        raise NotImplementedError

    @property
    def view(self) -> str:
        """The view of that server, a name of `VIEWS`."""
        return view_of(self.spec)

    @cached_property
    def best(self) -> BestAttack:
        """The attack with the highest AUC."""
        ran = [record for record in self.attacks if record.role == "attack"]
        return BestAttack(max(ran, key=lambda record: _or_lowest(record.metric("auc")), default=None), ran)

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


@dataclass(frozen=True, kw_only=True, eq=False)
class OtherAttacked(Attacked):
    """What attacks find on what another server sees of the first run of a pool."""

    spec: Spec
    attacks: tuple[AttackRecord, ...]
    gaps: tuple[GapRecord, ...]
    runs: int = 1


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
    spec: Spec
    asked: int
    record: RunRecord
    eps_claimed: float
    data: tuple[DataRecord, ...]
    utilities: tuple[UtilityRecord, ...]
    proofs: tuple[ProofRecord, ...] = ()
    audits: tuple[AuditRecord, ...] = ()
    attacks: tuple[AttackRecord, ...] = ()
    groups: tuple[AttackRecord, ...] = ()
    gaps: tuple[GapRecord, ...] = ()
    others: tuple[OtherAttacked, ...] = ()
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

    def mean(self, name: str) -> float | None:
        """Mean of a field of its `UtilityRecord`s; None where one of them does not know it."""
        return mean_utility(self.utilities, name)


class Proven(Protocol):
    """What holds the proofs of a chain, and what its audit found."""

    @property
    def proofs(self) -> Sequence[ProofRecord]: ...

    @property
    def audits(self) -> Sequence[AuditRecord]: ...


def proof_of(pool: Proven, view: str) -> ProofRecord | None:
    """What is proven for an observer of all rounds; None where it was not computed.

    That is nothing where an audit of the chain found a broken link, or contradicts a proof.
    """
    found = [proof for proof in pool.proofs if proof.of == "all rounds" and proof.view == view]
    return _if_it_holds(pool, found[0]) if found else None


def proven_auc(pool: ComparedPool) -> float | None:
    """The largest AUC of any attack on the attacked messages, by proof; None where nothing is proven."""
    known = [_if_it_holds(pool, proof).auc for proof in pool.proofs if proof.of == "attacked"]
    if len(known) < pool.runs or any(auc is None or auc >= 1 for auc in known):
        return None
    return max(auc for auc in known if auc is not None)


def _if_it_holds(pool: Proven, proof: ProofRecord) -> ProofRecord:
    broken = next((audit.declared_why for audit in pool.audits if audit.declared == "broken"), "")
    wrong = next((audit.why for audit in pool.audits if audit.verdict == CONTRADICTION), "")
    if not broken and not wrong:
        return proof
    why = f"a link does less than it declares: {broken}" if broken else f"its audit contradicts it: {wrong}"
    nothing = UpperBound(epsilon=math.inf, delta=proof.upper.delta, how=why)
    return proof.model_copy(update={"upper": nothing, "auc": 1.0})


def warnings_of(pool: ComparedPool) -> Iterator[CodedWarning]:
    """The warnings about a pool, but for missing noise that the proof of its claim counts in."""
    verdicts = {audit.verdict for audit in pool.audits if not sees_lists(audit.view)}
    for warning in dict.fromkeys(pool.record.warnings):
        if warning.code != NOISE_SHARES or verdicts != {"proven"}:
            yield warning


def worst_audit(pool: ComparedPool, view: str) -> AuditRecord | None:
    """What the audit found of a view; of several units and canaries the worst."""
    return max((audit for audit in pool.audits if audit.view == view), key=_badness, default=None)


def _badness(audit: AuditRecord) -> tuple[int, float, float]:
    """How bad a finding is: false claims before open ones before proven ones, then by their bounds."""
    place = 2 if audit.verdict in (*FALSE, CONTRADICTION) else 0 if audit.verdict == "proven" else 1
    return place, audit.upper.epsilon, audit.lower.epsilon


def hit_hardest(pool: ComparedPool) -> AttackRecord | None:
    """The group of clients that the best attack hits hardest; None where clients do not differ."""
    best = pool.best.attack
    if best is None:
        return None
    return next((one for one in pool.groups if one.method == best.method and one.place == 1), None)


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparisonTable:
    """The pools of a comparison, in the order of its grid."""

    pools: tuple[ComparedPool, ...] = ()

    @property
    def alternatives(self) -> list[str]:
        """The defenses as given, in order; pools of several epsilons belong to one."""
        return list(dict.fromkeys(pool.label.alternative for pool in self.pools))

    @property
    def epsilons(self) -> list[float]:
        """The epsilons that defenses were made for, rising."""
        return sorted({pool.label.eps for pool in self.pools if pool.label.eps is not None})


def pool_of(spec: Spec) -> str:
    """What the cells of a pool share: everything but repetition and fold."""
    table = flat(spec.table())
    return json_text({name: table[name] for name in table if name not in ("repetition", "data.fold")})


def cells_by_pool(cells: Iterable[CellPlan]) -> dict[str, list[CellPlan]]:
    """The cells of each pool, in order."""
    pools: dict[str, list[CellPlan]] = {}
    for cell in cells:
        pools.setdefault(pool_of(cell.spec), []).append(cell)
    return pools


def read_table(
    folder: ComparisonFolder,
    planned: Sequence[CellPlan],
    done: Sequence[CellPlan],
    progress: Progress = SILENT,
) -> ComparisonTable:
    """The table of cells that are done, of all planned ones; a `TraceError` where their data differ.

    Each cell is read once, so that judged lists of one pool are in memory.
    """
    asked = Counter(pool_of(cell.spec) for cell in planned)
    pooled = cells_by_pool(cell for cell in done if cell.kind == "attack")
    audits = {chain_of(cell.spec): folder.read(cell.spec).audits for cell in done if cell.kind == "audit"}
    others: dict[tuple[object, ...], list[CellPlan]] = {}
    for cell in done:
        if cell.kind in ATTACKS[1:]:
            others.setdefault(_system_of(cell.spec), []).append(cell)
    bases: dict[tuple[str, str, str], _Quality] = {}
    pools: dict[str, ComparedPool] = {}
    with progress.task("report", len(pooled)) as tick:
        for name in sorted(pooled, key=lambda name: pooled[name][0].label.alternative != NO_DEFENSE):
            cell = pooled[name][0]
            runs = [folder.read(each.spec) for each in pooled[name]]
            quality, place = _Quality.of(runs), _place(cell.spec)
            pool = _pool(runs, cell.label, asked[name], audits.get(chain_of(cell.spec), ()), quality)
            seen = [folder.read(each.spec) for each in others.get(_system_of(cell.spec), [])]
            pool = replace(pool, others=tuple(map(_other, seen)))
            if cell.label.alternative == NO_DEFENSE:
                bases[place] = quality
            elif place in bases:
                pool = _against(pool, quality, bases[place])
            pools[name] = pool
            tick()
    _refuse_mixed_data(folder, pools.values())
    return ComparisonTable(pools=tuple(pools[name] for name in pooled))


def _place(spec: Spec) -> tuple[str, str, str]:
    return spec.train.learner, spec.population.scenario, spec.train.click_model


def chain_of(spec: Spec) -> tuple[str, str, tuple[str, ...]]:
    """What cells share with the audit of their claim."""
    return spec.train.learner, spec.population.scenario, spec.defense


def _system_of(spec: Spec) -> tuple[object, ...]:
    """What the cells of a pool share with those that attack what other servers see."""
    return *chain_of(spec), spec.train.click_model


def _refuse_mixed_data(folder: ComparisonFolder, pools: Iterable[ComparedPool]) -> None:
    fingerprints: dict[int, str] = {}
    for record in (record for pool in pools for record in pool.data):
        first = fingerprints.setdefault(record.fold, record.fingerprint)
        if first != record.fingerprint:
            raise TraceError(
                f"{folder.path}: cells of different data: fingerprints {first[:12]} and "
                f"{record.fingerprint[:12]} of one fold; expected one, make it again with --overwrite"
            )


class _Quality(NamedTuple):
    """Of each cell, by repetition and fold: nDCG by query, NaN where one does not count, and online nDCG."""

    offline: dict[tuple[int, int], Floats]
    online: dict[tuple[int, int], float]

    @classmethod
    def of(cls, runs: Sequence[StoredRun]) -> _Quality:
        named = {(run.spec.repetition, run.spec.data.fold): run for run in runs}
        online = {key: run.utility.online_mean for key, run in named.items()}
        return cls(
            {key: run.query_ndcg for key, run in named.items()},
            {key: math.nan if value is None else value for key, value in online.items()},
        )

    def queries(self, among: Iterable[tuple[int, int]]) -> ByQuery:
        """Names of the queries that count, by fold, and their nDCG, a mean over some repetitions."""
        values: dict[str, list[float]] = {}
        for key in among:
            for number, value in enumerate(self.offline[key].tolist()):
                if not math.isnan(value):
                    values.setdefault(f"{key[1]}:{number:07d}", []).append(value)
        names = sorted(values)
        return np.array(names, dtype=np.str_), np.array([float(np.mean(values[name])) for name in names])

    def online_means(self, among: Iterable[tuple[int, int]]) -> Floats:
        return np.array([self.online[key] for key in among])


def _claimed(label: DefenseLabel, record: RunRecord) -> float:
    promised = DefenseAlternative(label.alternative).proven(label.eps, 0.0)
    if promised is not None:
        return promised["claim"]
    return math.inf if record.claim is None else record.claim


def _pool(
    runs: Sequence[StoredRun],
    label: DefenseLabel,
    asked: int,
    audits: tuple[AuditRecord, ...],
    quality: _Quality,
) -> ComparedPool:
    first, streams = runs[0], Streams(runs[0].spec.seed)
    evidence = _evidence(runs)
    names, values = queries = quality.queries(quality.offline)
    online = quality.online_means(quality.online)
    online = online[np.isfinite(online)]
    attacked = [proof for run in runs for proof in run.proofs if proof.of == "attacked"]
    return ComparedPool(
        label=label,
        spec=first.spec,
        asked=asked,
        record=first.record,
        eps_claimed=_claimed(label, first.record),
        data=tuple(run.data for run in runs),
        utilities=tuple(run.utility for run in runs),
        proofs=(*(proof for proof in first.proofs if proof.of != "attacked"), *attacked),
        audits=audits,
        attacks=() if evidence is None else _sealed(click_records(evidence, streams)),
        groups=() if evidence is None else _sealed(group_records(evidence, streams)),
        gaps=_gaps(runs, evidence),
        queries=queries,
        ndcg=QueryBootstrap(names, streams).share(values),
        online=Estimate(float(online.mean()) if online.size else math.nan, mean_interval(online)),
        curves={name: np.mean([run.rounds[name] for run in runs], axis=0) for name in CURVES},
        served=_served(runs),
    )


def _evidence(runs: Sequence[StoredRun]) -> ClickEvidence | None:
    pieces = [run.evidence for run in runs if run.evidence is not None]
    return ClickEvidence.combined(pieces) if pieces else None


def _gaps(runs: Sequence[StoredRun], evidence: ClickEvidence | None) -> tuple[GapRecord, ...]:
    refused = {} if evidence is None else evidence.refused
    return (
        *(GapRecord(what="refused", method=name, why=why) for name, why in sorted(refused.items())),
        *(gap for run in runs for gap in run.gaps if gap.what == "nothing to read"),
    )


def _other(run: StoredRun) -> OtherAttacked:
    evidence = _evidence([run])
    attacks = () if evidence is None else _sealed(click_records(evidence, Streams(run.spec.seed)))
    return OtherAttacked(spec=run.spec, attacks=attacks, gaps=_gaps([run], evidence))


def _sealed(records: Iterable[AttackRecord]) -> tuple[AttackRecord, ...]:
    """The records with their intervals, which no longer hold the lists that these are made of."""

    def sealed(metrics: Mapping[str, Estimate]) -> dict[str, Estimate]:
        return {
            name: metric if isinstance(metric, QueryMetric) else Estimate(metric.value, metric.ci95)
            for name, metric in metrics.items()
        }

    return tuple(record.model_copy(update={"metrics": sealed(record.metrics)}) for record in records)


def _served(runs: Sequence[StoredRun]) -> dict[str, float]:
    names = {group: f"{ONLINE_NDCG}/{group}" for group in runs[0].record.groups}
    served = {
        group: float(np.mean([mean_of_rounds(run.rounds[name]) for run in runs]))
        for group, name in names.items()
        if all(name in run.rounds for run in runs)
    }
    return dict(sorted(served.items(), key=lambda pair: pair[1]))


def _against(pool: ComparedPool, quality: _Quality, base: _Quality) -> ComparedPool:
    """The pool with its differences to no defense, over the repetitions that both have.

    Offline over queries that both have.
    """
    both = [key for key in quality.offline if key in base.offline]
    if not both:
        return pool
    whole = list(quality.offline) == list(base.offline)
    names, values = pool.queries if whole else quality.queries(both)
    base_names, base_values = base.queries(both)
    shared = np.intersect1d(names, base_names)
    return replace(
        pool,
        difference=over_queries(values[np.isin(names, shared)], base_values[np.isin(base_names, shared)]),
        online_difference=_over_runs(quality.online_means(both), base.online_means(both)),
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
