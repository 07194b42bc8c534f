"""The report of `compare`: its document, made of the pools of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG
from foltr_audit.core.results import UNKNOWN, DataRecord, GapRecord
from foltr_audit.core.settings.experiment import Spec, flat
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.experiments.comparison.grid import ATTACKS, CellPlan
from foltr_audit.experiments.decide import ComparedWorld, Decision, StrongestLeak, decide, worlds
from foltr_audit.experiments.table import (
    Attacked,
    ComparedPool,
    WorldKey,
    cells_by_pool,
    hit_hardest,
    proven_auc,
    read_pools,
    warnings_of,
    worst_audit,
)
from foltr_audit.judge.scoring import GROUP_METRICS, METRICS
from foltr_audit.privacy.observer_views import VIEWS, sees
from foltr_audit.report.audit import audit_columns
from foltr_audit.report.compare_tables import WorldTables, claims_table, epsilons_of
from foltr_audit.report.decision import (
    DECISION,
    MOST_SENTENCES,
    cheating_server,
    decision_row,
    decision_sentences,
)
from foltr_audit.report.documents import Document, Row, Section, nested
from foltr_audit.report.notebook import FramedPage
from foltr_audit.report.page import html_page, page_of
from foltr_audit.report.plan_report import beside_all
from foltr_audit.report.settings import (
    CLICKS,
    DATASET,
    RUN_BOUND,
    data_title,
    dataset_line,
    dataset_row,
    guess_columns,
    record_values,
    run_bound_columns,
)
from foltr_audit.report.table import counted
from foltr_audit.report.terminal import MOST_ROWS, BriefAnswer, first_rows, print_lines, print_table
from foltr_audit.utils.formatting import JsonValue, epsilon, join_names
from foltr_audit.utils.progress import SILENT, Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from foltr_audit.experiments.comparison.folder import ComparisonFolder

_NO_CELL = "No cell of this comparison is done, so nothing can be said yet."

COMPARED = Section(
    "data scenario click_model learner pdgd name alternative eps:num|null sensitivity:num|null defense "
    "eps_claimed:num runs:int"
)
"""The columns that name a defense in a world."""

CEILING = Section("view auc:num how")
_COSTS = (
    "ndcg@10:est evaluated_on ndcg@10_ceiling:num|null ndcg@10_untrained:num|null "
    "ndcg@10_validation:num|null online_mean:est online_sum:num|null clipped:num|null "
    "ndcg@10_difference:est ndcg@10_loss_lower:num|null ndcg@10_loss_upper:num|null ndcg@10_p:num|null "
    "online_mean_difference:est online_mean_p:num|null "
    "bytes_per_client:num|null worst_served_group:str|null worst_served_online:num|null groups:int|null"
)
ATTACKED = Section(
    "view sees runs:int runs_without_sum:int attack:str|null lists:int|null auc:est baseline:str|null "
    "baseline_auc:num|null above_guess:est grades_auc:num|null shown:str|null"
)
"""What the best attack of one observer finds; `shown` is a `LeakKind`."""

RESULT = Section(
    COMPARED,
    "attack:str|null attacks:int accuracy:est precision:est recall:est f1:est auc:est tpr_at_1:est "
    "lists:int|null runs_without_sum:int ceiling_auc:num|null",
    nested("ceilings", CEILING),
    "baseline:str|null baseline_auc:num|null above_guess:est grades_auc:num|null",
    nested("attacked", ATTACKED),
    _COSTS,
    "runs_asked:int worst_attacked_group:str|null worst_attacked_auc:num|null pareto:bool|null "
    "dominated_by:[str] ...",
)
"""The main rows; columns of an audited view end in its name."""

ATTACK = Section("method baseline:bool", COMPARED, "view", CLICKS, intervals_last="unknown")
GROUP = Section(
    "method baseline:bool",
    COMPARED,
    "group place:int lists:int skipped:int queries:int",
    *map(beside_all, GROUP_METRICS),
)
REFUSED = Section("method", COMPARED, "view reason")
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
    """The result of `compare`; rows of one setting are pooled over its repetitions.

    Attributes:
        config: the grid as a plain table.
        dataset: source, fingerprints and sizes of the data; empty where no cell is done.
        cells, unfinished: how many cells of each kind were asked for, and which are not done yet.
        sensitivities: values of Delta that were tried on the validation split, see `--sensitivity-grid`.
        left_out, failed: combinations that are impossible, and cells that could not be run; and why.
        warnings, claims: one row per defense and warning, and per audited view, unit and canary.
        attacks, refused: one row per method and setting, baselines first; and attacks that could not run.
        groups, served: attack success and online nDCG@10 by group of clients; empty where they do not differ.
        curves: nDCG@10 by round, from 0; one row per setting.
        results: one row per world, learner and defense; those of a world together.
        worlds: what cells found, pooled over repetitions, by world.
        decision: which defense to use; None where no cell is done.
        grid, plans: the grid as TOML, and its cells by name: how to repeat it.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/compare/1"
    NAMED_BY = ("name",)
    FIELDS: ClassVar[Section] = Section(
        "config:table",
        nested("dataset", DATASET, many=False, null=True),
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
        nested("decision", DECISION, many=False, null=True),
        nested("results", RESULT),
    )

    config: Mapping[str, JsonValue]
    dataset: Row
    cells: Row
    sensitivities: Sequence[Row] = ()
    unfinished: Sequence[Row] = ()
    left_out: Sequence[Row] = ()
    failed: Sequence[Row] = ()
    warnings: Sequence[Row]
    claims: Sequence[Row]
    attacks: Sequence[Row]
    refused: Sequence[Row]
    groups: Sequence[Row]
    served: Sequence[Row]
    curves: Sequence[Row]
    results: Sequence[Row]
    worlds: Sequence[ComparedWorld]
    decision: Decision | None
    grid: str = ""
    plans: Mapping[str, CellPlan] = field(default_factory=dict)

    MORE = f".page(), {Document.MORE}"

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
        return cls.of_pools(
            read_pools(folder, planned, done, progress),
            config=folder.grid.public.table(),
            grid=folder.grid.public.toml,
            plans={folder.cell(cell.spec).name: cell for cell in planned},
            cells=CELLS.row(
                {
                    "attack": sum(cell.kind in ATTACKS for cell in cells),
                    "audit": sum(cell.kind == "audit" for cell in cells),
                }
            ),
            sensitivities=[TRIED.of(trial) for trial in folder.sensitivities()],
            unfinished=list(_unfinished(cells, set(done))),
            left_out=[LEFT_OUT.of(exclusion) for exclusion in folder.left_out()],
            failed=[
                FAILED.of(spec.train, defense="+".join(spec.defense), run=spec.repetition, why=gap.why)
                for gap in (*failed, *before)
                for spec in (specs[str(gap.run)],)
            ],
        )

    @classmethod
    def of_pools(cls, pools: Sequence[ComparedPool], **others: Any) -> CompareReport:
        """The report on what cells found; `others` are the fields that do not follow from it."""
        every = worlds(pools)
        facts = [record for pool in pools for record in pool.data]

        def rows(of: Callable[[ComparedPool], Iterable[Row]]) -> list[Row]:
            return [row for pool in pools for row in of(pool)]

        return cls(
            dataset=_dataset(facts),
            warnings=_once(rows(_warnings)),
            claims=_once(rows(_claims)),
            attacks=rows(_attacks),
            refused=[
                REFUSED.of(pool, **compared(pool), method=method, view=seen.view, reason=why)
                for pool in pools
                for seen in pool.attacked
                for method, why in seen.refused.items()
            ],
            groups=rows(_groups),
            served=[
                SERVED.row({**compared(pool), "group": group, "online_mean": online})
                for pool in pools
                for group, online in pool.served.items()
            ],
            curves=rows(_curves),
            results=[_result(pool, world) for world in every for pool in world.pools],
            worlds=every,
            decision=decide(pools),
            **others,
        )

    @property
    def asked(self) -> int:
        """How many cells were asked for."""
        return sum(map(int, self.cells.values()))

    @property
    def done(self) -> int:
        """How many of them are done."""
        return self.asked - sum(int(row["cells"] - row["done"]) for row in self.unfinished)

    @property
    def coded_warnings(self) -> list[CodedWarning]:
        """Each warning once, after the defenses and epsilons that it is about."""
        about: dict[CodedWarning, dict[str, list[str]]] = {}
        for row in self.warnings:
            named = row["eps"] is None or "{" in row["alternative"]
            names = about.setdefault(CodedWarning(row["code"], row["warning"]), {})
            epsilons = names.setdefault(row["name"] if named else row["alternative"], [])
            if not named and epsilon(row["eps"]) not in epsilons:
                epsilons.append(epsilon(row["eps"]))
        return [
            warning.about(
                "; ".join(f"{name}, eps {', '.join(eps)}" if eps else name for name, eps in names.items())
            )
            for warning, names in about.items()
        ]

    def plain(self) -> dict[str, JsonValue]:
        said = None if self.decision is None else decision_row(self.decision)
        return self.FIELDS.of(self, decision=said).plain()

    @property
    def world_tables(self) -> list[WorldTables]:
        """The tables of each world; none where no cell is done."""
        rows: dict[WorldKey, list[Row]] = {world.key: [] for world in self.worlds}
        for row in self.results:
            rows[row["data"], row["scenario"], row["click_model"]].append(row)
        alone, decision = len(self.worlds) == 1, self.decision
        return [
            WorldTables(world, decision, rows[world.key], alone=alone) for world in self.worlds if decision
        ]

    @property
    def progress(self) -> list[str]:
        """What is not done and what could not be done, in sentences."""
        states = {
            f"{self.done} of {self.asked} cells are done: what is said is of these and will change. "
            "compare --resume runs the others.": self.done < self.asked,
            f"Cells that could not be run and are left out (see below): {len(self.failed)}.": self.failed,
            f"Combinations that are impossible (see below): {len(self.left_out)}.": self.left_out,
        }
        return [sentence for sentence, holds in states.items() if holds]

    @property
    def _about(self) -> str:
        """The data, learners and seed; empty where no cell is done."""
        seeded = {**self.config, "seed": flat(self.config).get("spec.seed", Spec().seed)}
        return dataset_line(self.dataset, seeded, self.results) if self.dataset else ""

    @property
    def server(self) -> list[str]:
        """The server that cheats in all runs, if one does, in a line."""
        server = cheating_server(flat(self.config).get("spec.train.server"))
        return [f"server {server}, also without a defense"] if server else []

    @property
    def _lost(self) -> list[str]:
        """The cells that failed, in lines."""
        return [f"failed: {row['defense']}, {row['click_model']} clicks: {row['why']}" for row in self.failed]

    def show(self, console: Console) -> None:
        """Print the decision, what leaks and what it costs in each world, then the claims and what holds."""
        said = [_NO_CELL] if self.decision is None else decision_sentences(self.decision)
        print_lines(said[:MOST_SENTENCES], console)
        if self._about:
            console.print(self._about)
        print_lines(self.server, console)
        for tables in self.world_tables:
            for table, notes in (
                (tables.leaks(), tables.no_better),
                (tables.others(), []),
                (tables.costs(), tables.dominated),
            ):
                if table is not None:
                    console.print()
                    print_table(table, console)
                    print_lines([f"  {line}" for line in notes], console)
        if self.claims:
            console.print()
            print_table(claims_table(self.claims), console)
        console.print()
        left_out = [f"left out: {row['learner']}, {row['defense']}: {row['why']}" for row in self.left_out]
        print_lines([*said[MOST_SENTENCES:], *self.progress, *left_out], console)
        print_lines(self._lost, console, "red")

    def short_answer(self) -> BriefAnswer | None:
        """The conclusion with one table: of the world in which the best attack adds most to the guess.

        None where no cell is done.
        """
        decision, tables = self.decision, self.world_tables
        if decision is None:
            return None
        said = decision_sentences(decision)

        def least_leak(tables: WorldTables) -> float:
            """What the best attack adds to the guess: on the recommended defense, or the least of all."""
            leaks = [row for row in tables.rows if decision.best is None or recommended(row)]
            above = [row.number("above_guess") for row in leaks if row.estimate("above_guess").known]
            return min(above, default=-1.0)

        def recommended(row: Row) -> bool:
            return decision.judgement(row) == "recommended"

        shown = max(tables, key=least_leak)
        rows = shown.rows
        if len(rows) > MOST_ROWS:
            least = epsilons_of(rows)[:1]
            rows = [row for row in rows if row["eps"] in (None, *least) or recommended(row)]
        larger = len(shown.rows) - len(rows)
        rows, more = first_rows(rows, "rows")
        return BriefAnswer(
            conclusion=tuple(said[:MOST_SENTENCES]),
            about=self._about,
            table=shown.brief(rows),
            notes=(
                *said[MOST_SENTENCES:],
                *self.progress,
                *self.server,
                *filter(None, [shown.no_sum]),
                *self._lost,
            ),
            left_out=(
                *_others([other.world for other in tables if other is not shown], shown.world),
                *([f"{larger} rows of larger epsilons"] if larger else []),
                *more,
                "every attack metric, what defenses lose at most and the checks of claims",
            ),
        )

    def html(self) -> str:
        """The page that `foltr-audit report` writes: it needs no network, and no other file."""
        return html_page(page_of(self))

    def page(self) -> FramedPage:
        """The same page for a notebook, below 400 kB; as the last line of a cell it is shown in a frame."""
        said = [_NO_CELL] if self.decision is None else decision_sentences(self.decision)
        return FramedPage(f"Comparison of defenses: {said[0]}", self.html())

    def figure(self) -> Figure:
        """What attacks read of each defense and what it costs, against epsilon."""
        from foltr_audit.report.figures import comparison_figure

        return comparison_figure(self.results, data_title(self.dataset) if self.dataset else "")


def _others(worlds: Sequence[ComparedWorld], shown: ComparedWorld) -> list[str]:
    """Worlds beside the one that is shown, in words: their clicks, if they differ in nothing else."""
    if any(world.key[:2] != shown.key[:2] for world in worlds):
        return [f"{counted(len(worlds), 'other setting')} of clicks, scenario and data"]
    return [f"{join_names([world.key[2] for world in worlds])} clicks"] if worlds else []


# --- rows ------------------------------------------------------------------------------------------


def _dataset(facts: Sequence[DataRecord]) -> Row:
    """The data of some cells, the columns of their folds by name; empty without a cell."""
    if not facts:
        return Row({}, DATASET)
    row = dataset_row(facts)
    return row.with_values(folds=[Row(dict(sorted(fold.items())), fold.section) for fold in row["folds"]])


def compared(pool: ComparedPool) -> Row:
    """The columns of `COMPARED`."""
    return COMPARED.of(
        pool,
        **dict(zip(("data", "scenario", "click_model"), pool.world, strict=True)),
        learner=pool.record.learner,
        pdgd=pool.record.pdgd,
        defense=pool.chain,
        **pool.label._asdict(),
    )


def _result(pool: ComparedPool, world: ComparedWorld) -> Row:
    best, hardest, place = pool.best, hit_hardest(pool), world.front[pool.key]
    attack = best.attack
    metrics = ("accuracy", "precision", "recall", "f1", "tpr_at_1")
    proofs = [proof for view in VIEWS if (proof := pool.proof(view)) is not None]
    several = len({other.record.learner for other in world.pools}) > 1
    loss = pool.difference.loss
    worst = next(iter(pool.served), None)
    return RESULT.row(
        {
            **compared(pool),
            **_audited(pool),
            "attack": None if attack is None else attack.method,
            "attacks": sum(record.role == "attack" for record in pool.attacks),
            **{name: UNKNOWN if attack is None else attack.metric(name) for name in metrics},
            "auc": best.auc,
            "lists": None if attack is None else attack.counts["lists"],
            "runs_without_sum": pool.without_sum,
            "ceiling_auc": proven_auc(pool),
            "ceilings": [CEILING.of(proof, how=proof.upper.how) for proof in proofs],
            "baseline": best.guess,
            "baseline_auc": best.guess_auc,
            "above_guess": best.above_guess,
            "grades_auc": best.grades_auc,
            "attacked": [_attacked(seen, world.leaks_of[pool.key]) for seen in pool.attacked],
            "ndcg@10": pool.ndcg,
            "evaluated_on": pool.utilities[0].evaluated_on,
            **{f"ndcg@10_{name}": pool.mean(name) for name in ("ceiling", "untrained", "validation")},
            "online_mean": pool.online,
            "online_sum": pool.mean("online_sum"),
            "clipped": pool.mean("clipped"),
            "ndcg@10_difference": pool.difference.size,
            "ndcg@10_loss_lower": None if loss is None else loss.lower,
            "ndcg@10_loss_upper": None if loss is None else loss.upper,
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
            "dominated_by": [", ".join(other.key) if several else other.name for other in place.beaten_by],
        }
    )


def _attacked(seen: Attacked, leaks: Sequence[StrongestLeak]) -> Row:
    best = seen.best
    return ATTACKED.row(
        {
            "view": seen.view,
            "sees": sees(seen.view),
            "runs": seen.runs,
            "runs_without_sum": seen.without_sum,
            "attack": None if best.attack is None else best.attack.method,
            "lists": None if best.attack is None else best.attack.counts["lists"],
            "auc": best.auc,
            "baseline": best.guess,
            "baseline_auc": best.guess_auc,
            "above_guess": best.above_guess,
            "grades_auc": best.grades_auc,
            "shown": next((leak.kind for leak in leaks if leak.seen is seen), None),
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
        yield CLAIM.of(
            audit,
            learner=pool.record.learner,
            scenario=pool.spec.population.scenario,
            name=pool.name,
            defense=pool.chain,
            **audit_columns(audit),
        )


def _attacks(pool: ComparedPool) -> Iterator[Row]:
    columns = compared(pool)
    several = [(seen, record) for seen in pool.attacked for record in seen.attacks]
    for seen, record in several:
        first = {"method": record.method, "baseline": record.baseline, "click_model": columns["click_model"]}
        last = {name: record.counts[name] for name in ("precision_undefined", "unknown")}
        counts = {name: count for name, count in record.counts.items() if name not in last}
        counts |= {name: record.metric(name) for name in METRICS} | guess_columns(record)
        yield ATTACK.row({**first, **columns, "view": seen.view, **counts, **last})


def _groups(pool: ComparedPool) -> Iterator[Row]:
    for record in pool.groups:
        yield GROUP.of(record, **(record_values(record) | compared(pool)))


def _curves(pool: ComparedPool) -> Iterator[Row]:
    curves = {name: values.tolist() for name, values in pool.curves.items()}
    yield CURVE.of(pool, **compared(pool), **curves | {"round": [*map(int, curves["round"])]})


def _warnings(pool: ComparedPool) -> Iterator[Row]:
    for warning in warnings_of(pool):
        more = {"name": pool.name, "learner": pool.record.learner, "warning": warning.text}
        yield WARNED.of(pool.label, code=warning.code, **more)


def _once(rows: Iterable[Row]) -> list[Row]:
    """Each row once: cells of several click models share a chain, and the audit of its claim."""
    return list({str(row): row for row in rows}.values())


def _unfinished(cells: Sequence[CellPlan], done: set[CellPlan]) -> Iterator[Row]:
    for same in cells_by_pool(cells).values():
        finished, first = sum(cell in done for cell in same), same[0]
        if finished < len(same):
            yield UNFINISHED.of(
                first.spec.train,
                kind=first.kind,
                scenario=first.spec.population.scenario,
                name=first.label.text,
                cells=len(same),
                done=finished,
            )
