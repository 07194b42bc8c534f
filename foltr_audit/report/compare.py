"""The report of `compare`: its document, its tables, and the decision in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from rich.markup import escape

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Server
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG
from foltr_audit.core.results import AuditRecord, Estimate, GapRecord
from foltr_audit.core.settings.defaults import NO_DEFENSE, SERVER
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.errors import PluginError
from foltr_audit.experiments.comparison.alternatives import fewest_messages
from foltr_audit.experiments.comparison.grid import CellPlan
from foltr_audit.experiments.decide import (
    ABOVE_GUESS,
    LEAST,
    MOST_AUC,
    MOST_LOSS,
    ComparedWorld,
    Decision,
    JudgedDefense,
    Judgement,
    decide,
    worlds,
)
from foltr_audit.experiments.runs.systems import without_shared_parameters
from foltr_audit.experiments.table import (
    ComparedPool,
    ComparisonTable,
    best_attack,
    cells_by_pool,
    hit_hardest,
    proof_of,
    proven_auc,
    read_table,
    worst_audit,
)
from foltr_audit.judge.scoring import GROUP_METRICS, METRICS
from foltr_audit.privacy.observer_views import VIEWS, sees, sees_lists
from foltr_audit.report.documents import Document, Field, Row, Section, nested, prefixed
from foltr_audit.report.settings import (
    DATASET,
    RUN_BOUND,
    dataset_line,
    dataset_row,
    describe_few_lists,
    run_bound_columns,
    run_bound_text,
    run_caption,
)
from foltr_audit.report.table import (
    EMPTY,
    Cell,
    Column,
    Mark,
    Table,
    bound_text,
    claim_text,
    counted,
    delta_text,
    interval_text,
    join_names,
    make_table,
    name_column,
    short_method,
    shortened,
    verdict_cell,
)
from foltr_audit.report.terminal import MOST_ROWS, BriefAnswer, first_rows, print_table
from foltr_audit.utils.formatting import JsonValue, epsilon, short
from foltr_audit.utils.progress import SILENT, Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from foltr_audit.experiments.comparison.folder import ComparisonFolder

# --- long phrases ----------------------------------------------------------------------------------

CHOSEN = "chosen on the lists that it is shown on, so a little high"
"""A note on the values of the best attack."""

PROMISE = (
    "the largest AUC that any attack can have, by the proof of one interaction, where all documents are "
    "equally likely clicked"
)
"""What a proof says of the attacked messages."""

FIXED = "over queries, with the trained models held fixed (repetitions are averaged first)"
"""What the intervals and p-values of offline nDCG@10 are over."""

VERDICTS: dict[Judgement, str] = {
    "holds": "nothing speaks against it",
    "no proof": "no attack succeeds, but no epsilon is proven",
    "no bound": "its noise is not computed for what its clip allows",
    "costs too much": f"more than {short(MOST_LOSS, 2)} of nDCG@10 lost (corrected p below {short(LEAST, 2)})",
    "too few lists": f"the interval of the AUC ends above {short(MOST_AUC, 2)}, and more than "
    f"{short(ABOVE_GUESS, 1)} above the guess that the attack does not beat",
    "leaks": "an attack is shown to beat every guess without a message, but that of who knows the grades",
    "false claim": "a claim is refuted, or its proof cannot hold",
    "not tested": "no attack or no ranking was measured",
}
"""What a verdict means, with its thresholds."""

_MARKS: dict[Judgement, Mark] = {
    "recommended": "good",
    "leaks": "bad",
    "false claim": "bad",
    "no bound": "warn",
    "costs too much": "warn",
    "too few lists": "warn",
    "not tested": "dim",
}
_WHY_NONE: dict[Judgement, str] = {
    "leaks": "attacks succeed under",
    "false claim": "the claim is false for",
    "costs too much": f"more than {short(MOST_LOSS, 2)} of nDCG@10 is lost under",
    "not tested": "nothing is known of",
    "no bound": "the noise is not computed for what the clip allows under",
    "too few lists": "too few lists were attacked under",
}
_NO_CELL = "No cell of this comparison is done, so nothing can be said yet."
NO_SUM = "no sum"
"""In the place of an AUC where attacks had nothing to read."""

# --- the document ----------------------------------------------------------------------------------

COMPARED = Section(
    "data scenario click_model learner pdgd name alternative eps:num|null sensitivity:num|null defense "
    "eps_claimed:num runs:int"
)
"""The columns that name a defense in a world."""

CEILING = Section("view auc:num how")
COSTS = Section(
    "ndcg@10:est evaluated_on ndcg@10_ceiling:num|null ndcg@10_untrained:num|null "
    "ndcg@10_validation:num|null online_mean:est online_sum:num|null clipped:num|null "
    "ndcg@10_difference:est ndcg@10_p:num|null online_mean_difference:est online_mean_p:num|null "
    "bytes_per_client:num|null worst_served_group:str|null worst_served_online:num|null groups:int|null"
)
RESULT = Section(
    COMPARED,
    "attack:str|null attacks:int accuracy:est precision:est recall:est f1:est auc:est tpr_at_1:est "
    "lists:int|null runs_without_sum:int ceiling_auc:num|null",
    nested("ceilings", CEILING),
    "baseline:str|null baseline_auc:num|null",
    COSTS,
    "runs_asked:int worst_attacked_group:str|null worst_attacked_auc:num|null pareto:bool|null "
    "dominated_by:[str] ...",
)
"""The main rows; columns of an audited view end in its name."""

ATTACK = Section(
    "method baseline:bool",
    COMPARED,
    "view lists:int skipped:int all_clicked:int queries:int unclicked_documents:int finest_fpr:num|null "
    "clipped:num",
    " ".join(f"{name}:est" for name in METRICS),
    "precision_undefined:int unknown:int",
    intervals_last=True,
)
GROUP = Section(
    "method baseline:bool",
    COMPARED,
    "group place:int lists:int skipped:int queries:int",
    " ".join(f"{name}:est {name}_all:num|null {name}_difference:est" for name in GROUP_METRICS),
)
REFUSED = Section("method", COMPARED, "reason")
SERVED = Section(COMPARED, "group online_mean:num")
CURVE = Section(COMPARED, f"round:[int] {ONLINE_NDCG}:[num] {OFFLINE_NDCG}:[num]")
CLAIM = Section(
    "learner scenario name defense view sees unit canary eps_claimed:num delta:num eps_upper:num",
    RUN_BOUND.prefixed("run_"),
    "eps_exact:num|null eps_lower:num eps_ceiling:num confidence:num trials:int verdict why declared "
    "declared_why upper_how",
)
WARNED = Section("name alternative eps:num|null learner code warning")
FAILED = Section("defense learner click_model run:int why")
LEFT_OUT = Section("learner defense why")
UNFINISHED = Section("kind scenario click_model learner name cells:int done:int")
TRIED = Section("learner scenario click_model eps:num sensitivity:num ndcg:num chosen:bool")
CELLS = Section("attack:int audit:int")


@dataclass(frozen=True, kw_only=True)
class CompareReport(Document):
    """The result of `compare`.

    Attributes:
        config: the grid as a plain table.
        cells: how many cells of each kind were asked for.
        sensitivities: values of Delta that were tried on the validation split, see `--sensitivity-grid`.
        unfinished: settings with cells that are not done yet, one row per kind; see `partial` of `of`.
        left_out: combinations that are impossible, and why.
        failed: cells that could not be run, and why; with `partial` those of the last run too.
        table: what the cells found, pooled over repetitions.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/compare/1"
    FIELDS: ClassVar[Section] = Section(
        "config:table",
        Field("dataset", {"anyOf": [DATASET.schema(), {"type": "null"}]}),
        nested("cells", CELLS, many=False),
        nested("sensitivities", TRIED),
        nested("unfinished", UNFINISHED),
        nested("left_out", LEFT_OUT),
        nested("failed", FAILED),
        nested("warnings", WARNED),
        nested("claims", CLAIM),
        nested("attacks", ATTACK),
        nested("refused", REFUSED),
        nested("groups", GROUP),
        nested("served", SERVED),
        nested("curves", CURVE),
        nested("results", RESULT),
    )

    config: Mapping[str, JsonValue]
    cells: Row
    sensitivities: Sequence[Row] = ()
    unfinished: Sequence[Row] = ()
    left_out: Sequence[Row] = ()
    failed: Sequence[Row] = ()
    table: ComparisonTable

    @classmethod
    def of(
        cls,
        folder: ComparisonFolder,
        failed: Sequence[GapRecord] = (),
        progress: Progress = SILENT,
        *,
        partial: bool = False,
    ) -> CompareReport:
        """The report on the cells of a folder; pooled over repetitions.

        Args:
            folder: the comparison.
            failed: cells that could not be run; they are left out.
            progress: shows how far this is.
            partial: whether cells that are not done yet are left out too, and counted.

        Raises:
            TraceError: a cell is missing or damaged.
        """
        planned = folder.cells()
        lost = {gap.run for gap in failed}
        cells = [cell for cell in planned if cell.spec.hash not in lost]
        done = [cell for cell in cells if not partial or folder.done(cell.spec)]
        before = [gap for gap in folder.failures() if gap.run not in lost] if partial else []
        specs = {cell.spec.hash: cell.spec for cell in planned}
        return cls(
            config=folder.grid.public.table(),
            cells=CELLS.row({kind: sum(cell.kind == kind for cell in cells) for kind in ("attack", "audit")}),
            sensitivities=[TRIED.of(trial) for trial in folder.sensitivities()],
            unfinished=list(_unfinished(cells, set(done))),
            left_out=[LEFT_OUT.of(exclusion) for exclusion in folder.left_out()],
            failed=[_failed(specs[gap.run], gap.why) for gap in (*failed, *before) if gap.run in specs],
            table=read_table(folder, planned, done, progress),
        )

    @property
    def server(self) -> str:
        """The server of all cells; empty where it is an honest one."""
        spec = self.config.get("spec")
        train = spec.get("train") if isinstance(spec, dict) else None
        named = train.get("server") if isinstance(train, dict) else None
        server = make_if_known(Server, named) if isinstance(named, str) else None
        return "" if server is None or server.name == SERVER else server.label

    @cached_property
    def dataset(self) -> Row | None:
        """Source, fingerprints and sizes of the data; None where no cell is done."""
        facts = [record for pool in self.table.pools for record in pool.data]
        return dataset_row(facts) if facts else None

    @cached_property
    def warnings(self) -> Sequence[Row]:
        """Incompatible defenses in the chains, one row per defense and warning."""
        return _once(row for pool in self.table.pools for row in _warnings(pool))

    @cached_property
    def claims(self) -> Sequence[Row]:
        """One row per audited view, unit and canary of every defense; `sees` is the view in words."""
        return _once(row for pool in self.table.pools for row in _claims(pool))

    @cached_property
    def attacks(self) -> Sequence[Row]:
        """One row per guesser and setting, baselines first."""
        return [row for pool in self.table.pools for row in _attacks(pool)]

    @cached_property
    def refused(self) -> Sequence[Row]:
        """One row per attack and setting in which it could not run, and why."""
        return [
            REFUSED.row({"method": method, **compared(pool), "reason": why})
            for pool in self.table.pools
            for method, why in pool.refused.items()
        ]

    @cached_property
    def groups(self) -> Sequence[Row]:
        """Attack success by group of clients; empty where clients do not differ."""
        return [row for pool in self.table.pools for row in _groups(pool)]

    @cached_property
    def served(self) -> Sequence[Row]:
        """Online nDCG@10 by group of clients; empty where clients do not differ."""
        return [
            SERVED.row({**compared(pool), "group": group, "online_mean": online})
            for pool in self.table.pools
            for group, online in pool.served.items()
        ]

    @cached_property
    def curves(self) -> Sequence[Row]:
        """nDCG@10 by round, from 0: means over runs, one row per setting."""
        return [
            CURVE.row(
                {
                    **compared(pool),
                    **{name: values.tolist() for name, values in pool.curves.items()},
                    "round": pool.curves["round"].astype(int).tolist(),
                }
            )
            for pool in self.table.pools
        ]

    @cached_property
    def worlds(self) -> Sequence[ComparedWorld]:
        return worlds(self.table)

    @cached_property
    def results(self) -> Sequence[Row]:
        """One row per world, learner and defense."""
        world_of = {world.key: world for world in self.worlds}
        return [_result(pool, world_of[pool.world]) for pool in self.table.pools]

    @cached_property
    def decision(self) -> Decision | None:
        """Which defense to use; None where no cell is done."""
        return decide(self.table)

    @property
    def done(self) -> int:
        """How many of the cells that were asked for are done."""
        return self.asked - sum(row["cells"] - row["done"] for row in self.unfinished)

    @property
    def asked(self) -> int:
        return int(sum(self.cells.values()))

    @property
    def coded_warnings(self) -> list[CodedWarning]:
        """Each warning once, after the defenses and epsilons that it is about."""
        return warnings_by_defense(self.warnings)

    def rows_of(self, world: ComparedWorld) -> list[Row]:
        """The results of a world."""
        return [
            row for row in self.results if (row["data"], row["scenario"], row["click_model"]) == world.key
        ]

    def plain(self) -> dict[str, JsonValue]:
        """As of every document; without data their table is empty, and folds have their columns by name."""
        plain = super().plain()
        dataset = plain["dataset"] or {}
        if isinstance(dataset, dict) and isinstance(dataset.get("folds"), list):
            dataset["folds"] = [dict(sorted(fold.items())) for fold in dataset["folds"]]  # type: ignore
        return plain | {"dataset": dataset}

    def json_with_decision(self) -> str:
        """As one JSON object, with the decision in its last field."""
        return self.json({"decision": None if self.decision is None else _decision(self.decision)})

    def show(self, console: Console) -> None:
        """Print the decision, what leaks and what it costs in each world, then the claims and what holds."""
        print_compare(self, console)

    def short_answer(self) -> BriefAnswer | None:
        """The conclusion with one table."""
        return brief_compare(self)

    def figure(self) -> Figure:
        """Attack against utility, and both against epsilon."""
        from foltr_audit.report.pictures.compare_panels import comparison_figure

        return comparison_figure(self)


# --- rows ------------------------------------------------------------------------------------------


def compared(pool: ComparedPool) -> dict[str, Any]:
    """The columns of `COMPARED`."""
    data, scenario, click_model = pool.world
    return {
        "data": data,
        "scenario": scenario,
        "click_model": click_model,
        "learner": pool.record.learner,
        "pdgd": pool.record.pdgd,
        "name": pool.name,
        "alternative": pool.label.alternative,
        "eps": pool.label.eps,
        "sensitivity": pool.label.sensitivity,
        "defense": "+".join(pool.spec.defense),
        "eps_claimed": pool.eps_claimed,
        "runs": pool.runs,
    }


def _result(pool: ComparedPool, world: ComparedWorld) -> Row:
    best, hardest, place = best_attack(pool), hit_hardest(pool), world.front[pool.key]
    attack, without = best.attack, best.without
    names = ("accuracy", "precision", "recall", "f1", "auc", "tpr_at_1")
    proofs = [proof for view in VIEWS if (proof := proof_of(pool, view)) is not None]
    several = len({other.record.learner for other in world.pools}) > 1
    worst = next(iter(pool.served), None)
    return RESULT.row(
        {
            **compared(pool),
            **_audited(pool),
            "attack": None if attack is None else attack.method,
            "attacks": sum(record.role == "attack" for record in pool.attacks),
            **{name: Estimate(math.nan) if attack is None else attack.metric(name) for name in names},
            "lists": None if attack is None else attack.counts["lists"],
            "runs_without_sum": pool.without_sum,
            "ceiling_auc": proven_auc(pool),
            "ceilings": [
                CEILING.row({"view": proof.view, "auc": proof.auc, "how": proof.upper.how})
                for proof in proofs
            ],
            "baseline": None if without is None else without.method,
            "baseline_auc": None if without is None else without.metric("auc").value,
            "ndcg@10": pool.ndcg,
            "evaluated_on": pool.utilities[0].evaluated_on,
            "ndcg@10_ceiling": pool.mean("ceiling"),
            "ndcg@10_untrained": pool.mean("untrained"),
            "ndcg@10_validation": pool.mean("validation"),
            "online_mean": pool.online,
            "online_sum": pool.mean("online_sum"),
            "clipped": pool.mean("clipped"),
            "ndcg@10_difference": pool.difference.size,
            "ndcg@10_p": pool.difference.p,
            "online_mean_difference": pool.online_difference.size,
            "online_mean_p": pool.online_difference.p,
            "bytes_per_client": pool.mean("bytes_per_client"),
            "worst_served_group": worst,
            "worst_served_online": None if worst is None else pool.served[worst],
            "groups": len(pool.served) or None,
            "runs_asked": pool.asked,
            "worst_attacked_group": None if hardest is None else hardest.group,
            "worst_attacked_auc": None if hardest is None else hardest.metric("auc").value,
            "pareto": place.on,
            "dominated_by": [", ".join(one.key) if several else one.name for one in place.beaten_by],
        }
    )


def _audited(pool: ComparedPool) -> dict[str, Any]:
    """The columns of each audited view; of several units those of the worst one."""
    columns: dict[str, Any] = {}
    for view in VIEWS:
        audit = worst_audit(pool, view)
        if audit is not None:
            values = {
                "eps_claimed": audit.eps_claimed,
                "eps_proven": audit.upper.epsilon,
                "eps_exact": audit.exact,
                "eps_measured": audit.lower.epsilon,
                "eps_ceiling": audit.lower.ceiling,
                "delta": audit.delta,
                "verdict": audit.verdict,
                "unit": audit.unit,
                **run_bound_columns(audit.whole_run),
            }
            columns |= {f"{name}_{view}": value for name, value in values.items()}
    return columns


def _claims(pool: ComparedPool) -> Iterator[Row]:
    for audit in pool.audits:
        yield CLAIM.row(
            {
                "learner": pool.record.learner,
                "scenario": pool.spec.population.scenario,
                "name": pool.name,
                "defense": "+".join(pool.spec.defense),
                "view": audit.view,
                "sees": sees(audit.view, audit.colluders),
                "unit": audit.unit,
                "canary": audit.canary,
                "eps_claimed": audit.eps_claimed,
                "delta": audit.delta,
                "eps_upper": audit.upper.epsilon,
                **run_bound_columns(audit.whole_run),
                "eps_exact": audit.exact,
                "eps_lower": audit.lower.epsilon,
                "eps_ceiling": audit.lower.ceiling,
                "confidence": audit.lower.confidence,
                "trials": audit.lower.trials,
                "verdict": audit.verdict,
                "why": audit.why,
                "declared": audit.declared,
                "declared_why": audit.declared_why,
                "upper_how": audit.upper.how,
            }
        )


def _attacks(pool: ComparedPool) -> Iterator[Row]:
    columns = compared(pool)
    last = ("precision_undefined", "unknown")
    for record in pool.attacks:
        counts = record.counts
        yield ATTACK.row(
            {
                "method": record.method,
                "baseline": record.baseline,
                "click_model": columns["click_model"],
                **columns,
                "view": "individual",
                **{name: value for name, value in counts.items() if name not in last},
                **record.metrics,
                **{name: counts[name] for name in last},
            }
        )


def _groups(pool: ComparedPool) -> Iterator[Row]:
    for record in pool.groups:
        metrics: dict[str, Any] = {}
        for name in GROUP_METRICS:
            metrics |= {name: record.metrics[name], f"{name}_all": record.everybody[name]}
            metrics[f"{name}_difference"] = record.differences[name]
        yield GROUP.row(
            {
                "method": record.method,
                "baseline": record.baseline,
                **compared(pool),
                "group": record.group,
                "place": record.place,
                **record.counts,
                **metrics,
            }
        )


NOISE_SHARES = "FA102"
"""The warning of a message, or a sum, that holds only a part of the noise."""


def _warnings(pool: ComparedPool) -> Iterator[Row]:
    """The warnings about a pool, but for missing noise that the proof of its claim counts in."""
    verdicts = {audit.verdict for audit in pool.audits if not sees_lists(audit.view)}
    for warning in pool.record.warnings:
        if warning.code != NOISE_SHARES or verdicts != {"proven"}:
            columns = compared(pool)
            named = {name: columns[name] for name in ("name", "alternative", "eps", "learner")}
            yield WARNED.row({**named, "code": warning.code, "warning": warning.text})


def _once(rows: Iterator[Row]) -> list[Row]:
    """Each row once: cells of several click models share a chain, and the audit of its claim."""
    return list({str(row): row for row in rows}.values())


def _failed(spec: Spec, why: str) -> Row:
    values = {
        "defense": "+".join(spec.defense),
        "learner": spec.train.learner,
        "click_model": spec.train.click_model,
        "run": spec.repetition,
    }
    return FAILED.row({**values, "why": why})


def _unfinished(cells: Sequence[CellPlan], done: set[CellPlan]) -> Iterator[Row]:
    for pool in cells_by_pool(cells).values():
        finished = sum(cell in done for cell in pool)
        if finished < len(pool):
            spec = pool[0].spec
            yield UNFINISHED.row(
                {
                    "kind": pool[0].kind,
                    "scenario": spec.population.scenario,
                    "click_model": spec.train.click_model,
                    "learner": spec.train.learner,
                    "name": pool[0].label.text,
                    "cells": len(pool),
                    "done": finished,
                }
            )
